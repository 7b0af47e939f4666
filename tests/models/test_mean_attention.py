"""A tensor replaced by its mean over images: nothing changes exactly if it was constant."""

import pytest
import torch
from torch import Tensor

from reconet.models.context.low_rank import LowRankCore
from reconet.models.context.reconet import TensorReconstruction
from reconet.models.context.reconet_plus import FragmentReconstruction
from reconet.models.mean_attention import MeanTensor, record_mean, replace_tensor
from reconet.models.segmenter import Segmenter
from tests.factories import tiny_model

CROP_MAP = (8, 12)  # of the crop of tiny_model, 64 x 96


def network(name: str) -> tuple[Segmenter, LowRankCore]:
    torch.manual_seed(0)
    model = tiny_model(name, rank=4, aux=False).eval()
    core = model.context.core
    assert isinstance(core, LowRankCore)
    return model, core


def images() -> list[Tensor]:
    """Return images that differ in brightness and, but for the first two, in size."""
    generator = torch.Generator().manual_seed(1)
    sizes = [(64, 96), (64, 96), (48, 80)]
    return [
        bright * torch.rand(1, 3, *size, generator=generator)
        for bright, size in zip((0.2, 1.0, 0.6), sizes, strict=True)
    ]


@torch.no_grad()
def logits(model: Segmenter) -> list[Tensor]:
    return [model.coarse(image_bchw) for image_bchw in images()]


def mean_over_images(model: Segmenter, core: LowRankCore) -> Tensor:
    with record_mean(core, CROP_MAP) as mean:
        logits(model)
    return mean.value()


@torch.no_grad()
def make_constant(core: LowRankCore) -> None:
    """Change the weights so that the tensor is the same everywhere, for every image."""
    if isinstance(core, TensorReconstruction):
        for generator in (core.channel, core.row, core.column):
            generator.linear.weight.zero_()
    elif isinstance(core, FragmentReconstruction):
        core.mix.weight.zero_()
        core.bias_rc.fill_(0.5)
        core.masks.get_parameter("conv.weight").zero_()


@pytest.mark.parametrize("name", ["reconet", "reconet_plus"])
def test_a_constant_tensor_is_its_own_mean(name: str) -> None:
    model, core = network(name)
    make_constant(core)
    before = logits(model)
    with replace_tensor(core, mean_over_images(model, core)):
        fixed = logits(model)
    assert all(torch.equal(a, b) for a, b in zip(before, fixed, strict=True))


@pytest.mark.parametrize("name", ["reconet", "reconet_plus"])
def test_a_tensor_that_depends_on_the_image_is_not(name: str) -> None:
    model, core = network(name)
    before = logits(model)
    with replace_tensor(core, mean_over_images(model, core)):
        fixed = logits(model)
    for a, b in zip(before, fixed, strict=True):
        assert (a - b).abs().max() > 1e-4 * a.abs().max()
    after = logits(model)  # nothing is left behind
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ["reconet", "reconet_plus"])
def test_the_mean_over_one_image_of_the_crops_size_is_its_own_tensor(name: str) -> None:
    model, core = network(name)
    with torch.no_grad():
        expected = model.coarse(images()[0])
        with record_mean(core, CROP_MAP) as mean:
            model.coarse(images()[0])
        with replace_tensor(core, mean.value()):
            found = model.coarse(images()[0])
            other = model.coarse(images()[1])
    torch.testing.assert_close(found, expected)
    assert not torch.equal(other, model.coarse(images()[1]))


def test_maps_of_any_size_count_the_same() -> None:
    mean = MeanTensor((2, 3))
    mean.add(torch.full((1, 5, 7, 4), 1.0))
    mean.add(torch.full((1, 5, 2, 3), 4.0))
    mean.add(torch.full((1, 5, 9, 30), 1.0))
    torch.testing.assert_close(mean.value(), torch.full((5, 2, 3), 2.0).double())
    with pytest.raises(ValueError, match="no tensors"):
        MeanTensor((2, 3)).value()
