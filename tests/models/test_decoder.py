"""The decoder: it starts as no decoder at all, stands behind every context, and learns."""

from pathlib import Path
from typing import Literal

import pytest
import torch

from reconet.cost.counter import recipe_costs
from reconet.engine import run_training
from reconet.inference import Predictor
from reconet.models.context import CONTEXTS
from reconet.models.layers import resize
from reconet.models.losses import segmentation_loss
from reconet.models.segmenter import Segmenter, create_model
from tests.factories import smooth_image, tiny_recipe


def network(
    context: str = "reconet_plus", decoder: Literal["none", "light"] = "light"
) -> Segmenter:
    return create_model(
        context, num_classes=3, backbone="resnet18", width=0.125, crop=(64, 96), decoder=decoder
    )


@pytest.mark.parametrize("size", [(64, 96), (65, 97), (33, 57)])
def test_it_starts_as_the_network_without_it_at_stride_4(size: tuple[int, int]) -> None:
    with_decoder, without = network().eval(), network(decoder="none").eval()
    without.load_state_dict(with_decoder.state_dict(), strict=False)
    image_bchw = torch.rand(2, 3, *size)
    fine_bkhw, coarse_bkij = with_decoder.coarse(image_bchw), without.coarse(image_bchw)
    assert fine_bkhw.shape[2:] == (-(-size[0] // 4), -(-size[1] // 4))
    expected_bkhw = resize(coarse_bkij, (fine_bkhw.shape[2], fine_bkhw.shape[3]))
    torch.testing.assert_close(fine_bkhw, expected_bkhw)


@pytest.mark.parametrize("context", sorted(CONTEXTS))
def test_it_learns_behind_every_context(context: str) -> None:
    torch.manual_seed(0)
    model = network(context).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in (2, 1):
        label_bhw = torch.randint(0, 3, (batch, 64, 96))
        logits = model(torch.rand(batch, 3, 64, 96))
        loss = segmentation_loss(logits, label_bhw) + model.context.loss(logits.extra, label_bhw)
        optimizer.zero_grad()
        loss.backward()
        assert loss.isfinite()
        optimizer.step()
    assert model.decoder is not None
    # The layers before the zeros learn from the second step on.
    assert all(p.grad is not None and p.grad.any() for p in model.decoder.parameters())


def test_cached_features_train_it_and_a_trained_network_can_be_given_one(tmp_path: Path) -> None:
    short = ("train.steps=4", "train.eval_every=4", "data.workers=0")
    frozen = (*short, "model.frozen=true", "data.views=1", "model.context=fcn")
    run_training(tiny_recipe(*frozen), tmp_path / "start", device="cpu")
    given = tiny_recipe(*frozen, "model.decoder=light", f"train.init_from={tmp_path / 'start'}")
    run_training(given, tmp_path / "given", device="cpu")
    trained = Predictor.from_run(tmp_path / "given", device="cpu")
    assert trained.network.info.recipe.model.decoder == "light"
    assert trained(smooth_image(1, 50, 70)).label_hw.shape == (50, 70)


def test_it_is_a_part_of_the_cost() -> None:
    recipe = tiny_recipe("model.decoder=light")
    (cost,) = recipe_costs(recipe, ["fcn"], (64, 64), 3).values()
    assert {part.name: part.macs > 0 for part in cost.parts}["decoder"]
