"""The score with the attention replaced by its mean, on networks whose attention we know."""

import pytest
import torch
from torch import Tensor

from reconet.evaluation.metrics import confusion_matrix
from reconet.models.context.low_rank import Factors
from reconet.models.context.reconet import TensorReconstruction
from reconet.models.segmenter import Segmenter
from reconet.study.life import count_with_mean
from tests.factories import tiny_model

CROP = (64, 96)


def network(monkeypatch: pytest.MonkeyPatch, *, alive: bool) -> Segmenter:
    """Build a network whose attention is 20 for some images and 0 for others, or 20 for all."""
    torch.manual_seed(0)
    model = tiny_model("reconet", rank=2, gpm=False, aux=False, crop=CROP).eval()
    torch.nn.init.normal_(model.classify.weight, std=1)
    core = model.context.core
    assert isinstance(core, TensorReconstruction)
    own = core.factors
    levels: list[float] = []

    def factors(x_bchw: Tensor) -> Factors:
        if len(levels) < len(images()):  # the first time that the images are shown
            levels.append(x_bchw.mean().item())
        is_bright = x_bchw.mean().item() > sum(levels) / len(levels)
        gate = 20.0 if is_bright or not alive else 0.0
        made = Factors(*(torch.ones_like(factor) for factor in own(x_bchw)))
        return made._replace(weight_r=made.weight_r * gate / len(made.weight_r))

    monkeypatch.setattr(core, "factors", factors)
    labels(model)
    return model


def images() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.rand(1, 3, *CROP, generator=generator) * k / 4 for k in (1, 2, 3, 4)]


@torch.no_grad()
def labels(model: Segmenter) -> list[Tensor]:
    return [model.coarse(image_bchw).argmax(1)[0].to(torch.uint8) for image_bchw in images()]


@pytest.mark.parametrize("alive", [False, True])
def test_only_an_attention_that_depends_on_the_image_loses_by_its_mean(
    monkeypatch: pytest.MonkeyPatch, alive: bool
) -> None:
    model = network(monkeypatch, alive=alive)
    truth = labels(model)  # so that the network itself is always right

    def count(model: Segmenter) -> Tensor:
        pairs = zip(truth, labels(model), strict=True)
        return torch.stack([confusion_matrix(true, found, 3) for true, found in pairs]).sum(0)

    own_kk, mean_kk = count(model), count_with_mean(model, CROP, count)
    assert mean_kk is not None
    assert own_kk.diagonal().sum() == own_kk.sum()
    assert torch.equal(mean_kk, own_kk) == (not alive)


def test_a_context_without_a_tensor_is_not_even_shown_the_images() -> None:
    def count(model: Segmenter) -> Tensor:
        raise AssertionError("not needed")

    assert count_with_mean(tiny_model("fcn", aux=False), CROP, count) is None
