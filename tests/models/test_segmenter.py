"""The whole network: what it is built of, what it refuses, and what it becomes for use."""

from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import nn

from reconet.errors import RecipeError
from reconet.models import (
    CONTEXTS,
    Segmenter,
    build_model,
    create_model,
    fold_batchnorm,
    segmentation_loss,
)
from reconet.models.layers import Attention, PooledBN, principal_components, resize
from reconet.recipes import find_recipe, override
from tests.models.helpers import stir

SMALL: dict[str, Any] = {"backbone": "resnet18", "width": 0.125, "num_classes": 3, "crop": 64}


def test_normalisation_is_that_of_imagenet_and_happens_inside() -> None:
    model = create_model("plain", **SMALL)
    grey = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1).expand(1, 3, 2, 2)
    torch.testing.assert_close(model.normalise(grey), torch.zeros(1, 3, 2, 2))
    one_std_up = grey + torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
    torch.testing.assert_close(model.normalise(one_std_up), torch.ones(1, 3, 2, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "reconets"}, r"unknown context 'reconets'\. Did you mean 'reconet'"),
        ({"rnk": 3}, r"unknown option of context 'reconet': 'rnk'\. Did you mean 'rank'"),
        ({"rank": 0}, r"option reconet\.rank: input should be greater than 0, got 0"),
        ({"rank": "many"}, r"option reconet\.rank: .*got 'many'"),
        ({"rank": True}, r"option reconet\.rank: takes a number, got True"),
        ({"dropout": 2.0}, r"option reconet\.dropout: .*less than or equal to 1"),
        ({"num_classes": 0}, "num_classes must be from 1 to 254"),
        ({"num_classes": 255}, "num_classes must be from 1 to 254, as labels have 8 bits; got 255"),
        ({"stem": "depe"}, r"stem: .*'deep', 'deep32' or 'plain', got 'depe'"),
        ({"stride_on": "1"}, r"stride_on: .*'3x3' or '1x1', got '1'"),
        ({"crop": 0}, r"crop\.0: .*greater than 0"),
        ({"crop": (64, 64, 64)}, "crop: "),
        ({"width": float("nan")}, "width: "),
    ],
)
def test_what_cannot_be_built_says_why(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        create_model(**{"name": "reconet", **SMALL, **arguments})


def test_a_recipe_builds_its_network_with_rank_and_options() -> None:
    recipe = override(find_recipe("scenes/tiny"), "model.rank", "5")
    recipe = override(recipe, "model.options.gpm", "false")
    context = build_model(recipe, 3).context
    assert context.core is not None
    assert context.core.get_parameter("rank_logits_r").numel() == 5
    assert context.pool is None


def test_the_auxiliary_head_reads_c3_with_dropout() -> None:
    model = create_model("plain", **SMALL)
    assert model.aux is not None
    assert model.aux.dropout.p == 0.1
    image_bchw = torch.rand(2, 3, 64, 64)
    c3 = model.backbone(model.normalise(image_bchw)).c3
    model.aux.dropout.p = 0.0
    expected = resize(model.aux(c3), (64, 64))
    torch.testing.assert_close(model.train()(image_bchw).aux_bkhw, expected)
    model.aux.dropout.p = 1.0  # everything: what is left is the classifier's bias
    bias_k = model.aux.classify.bias
    assert bias_k is not None
    assert torch.equal(model.aux(c3), bias_k[None, :, None, None].expand(2, 3, 8, 8))


def test_a_saved_export_gives_the_same_logits(tmp_path: Path) -> None:
    model = create_model("reconet", **SMALL).eval()
    image_bchw = torch.randint(0, 256, (1, 3, 64, 64), dtype=torch.uint8)
    torch.export.save(torch.export.export(model, (image_bchw,)), tmp_path / "model.pt2")
    again = torch.export.load(tmp_path / "model.pt2").module()(image_bchw)
    torch.testing.assert_close(again.main_bkhw, model(image_bchw).main_bkhw)


@pytest.mark.parametrize("shape", [(3, 64, 64), (1, 1, 64, 64), (1, 64, 64, 3)])
def test_what_is_no_batch_of_rgb_images_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="takes RGB images"):
        create_model("plain", **SMALL)(torch.rand(shape))


def known_norm() -> PooledBN:
    norm = PooledBN(3)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
    norm.running_mean = torch.tensor([0.5, -1.0, 2.0])
    norm.running_var = torch.tensor([4.0, 1.0, 0.25])
    return norm


def test_one_value_per_channel_is_normalised_by_what_is_known() -> None:
    norm, x_bchw = known_norm(), torch.randn(1, 3, 1, 1, requires_grad=True)
    in_training = norm.train()(x_bchw)
    torch.testing.assert_close(in_training, norm.eval()(x_bchw))
    in_training.sum().backward()
    assert norm.weight.grad is not None
    assert norm.running_mean is not None
    assert norm.running_mean.tolist() == [0.5, -1.0, 2.0]
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm2d(3)(x_bchw)


@pytest.mark.parametrize(("scale", "factor"), [(1.0, 1.0), (None, 6**-0.5)])
def test_attention_equals_loops(scale: float | None, factor: float) -> None:
    query, key, value = torch.randn(2, 5, 6), torch.randn(2, 4, 6), torch.randn(2, 4, 3)
    result = Attention(scale=scale)(query, key, value)
    for b in range(2):
        for i in range(5):
            energy_m = torch.stack([factor * (query[b, i] * key[b, j]).sum() for j in range(4)])
            weight_m = energy_m.exp() / energy_m.exp().sum()
            by_hand = sum(weight_m[j] * value[b, j] for j in range(4))
            torch.testing.assert_close(result[b, i], by_hand)


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


@pytest.mark.parametrize("context", ["reconet_plus", "deeplabv3plus", "emanet"])
def test_it_learns_behind_a_context(context: str) -> None:
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


def lived_in(name: str, backbone: str = "resnet18") -> Segmenter:
    """Make a small network whose batch norms are not the identity."""
    model = create_model(name, backbone=backbone, width=0.125, num_classes=3, crop=64)
    stir(model)
    return model


@pytest.mark.parametrize("name", sorted(CONTEXTS))
def test_a_folded_network_says_the_same(name: str) -> None:
    model, image_bchw = lived_in(name), torch.rand(2, 3, 64, 72)
    with torch.no_grad():
        expected, got = model(image_bchw).main_bkhw, fold_batchnorm(model)(image_bchw).main_bkhw
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("backbone", ["resnet18", "resnet50"])
def test_no_batch_norm_is_left_and_the_network_stays_as_it_was(backbone: str) -> None:
    model = lived_in("reconet", backbone)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    folded = fold_batchnorm(model.train())
    assert model.training
    assert not folded.training
    kept = [n for n, part in folded.named_modules() if isinstance(part, nn.BatchNorm2d)]
    assert kept == ["aux.reduce.1"]  # is not in use
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])


class Both(nn.Module):
    """What the convolution gives, with and without the norm."""

    def __init__(self, parts: nn.Sequential) -> None:
        super().__init__()
        self.parts: nn.Sequential = parts

    def forward(self, x_bchw: torch.Tensor) -> torch.Tensor:
        y_bchw: torch.Tensor = self.parts[0](x_bchw)
        normed_bchw: torch.Tensor = self.parts[1](y_bchw)
        return y_bchw + normed_bchw


def test_a_convolution_that_others_use_too_is_not_folded() -> None:
    model = lived_in("reconet")
    reduce = model.context.reduce
    assert isinstance(reduce, nn.Sequential)

    model.context.reduce = Both(reduce)
    image_bchw = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        expected, got = model(image_bchw).main_bkhw, fold_batchnorm(model)(image_bchw).main_bkhw
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-4)


def test_components_equal_those_of_a_singular_value_decomposition() -> None:
    sample_nc = torch.randn(200, 6) @ torch.randn(6, 6) + 3
    weight_dc, bias_d = principal_components(sample_nc, 3)
    centred_nc = (sample_nc - sample_nc.mean(0)).double()
    expected_dc = torch.linalg.svd(centred_nc, full_matrices=False).Vh[:3]
    overlap_d = (weight_dc.double() * expected_dc).sum(1).abs()
    torch.testing.assert_close(overlap_d, torch.ones(3).double(), rtol=1e-5, atol=1e-5)
    projected_nd = sample_nc @ weight_dc.T + bias_d
    torch.testing.assert_close(projected_nd.mean(0), torch.zeros(3), rtol=0, atol=1e-4)


def test_the_projection_is_a_layer_of_the_network() -> None:
    model = create_model(
        "fcn", backbone="resnet18", width=0.125, num_classes=3, crop=(64, 96), project=16
    )
    assert model.project is not None
    assert model.trunk(torch.rand(2, 3, 64, 96)).c4.shape == (2, 16, 8, 12)
    assert model.context.out_channels == 4  # a quarter of what it reads
    assert "project.weight" in model.state_dict()
    assert model(torch.rand(2, 3, 50, 70)).main_bkhw.shape == (2, 3, 50, 70)
