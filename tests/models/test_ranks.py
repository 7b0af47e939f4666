"""Networks with ranks: taken apart, measured, and with their tensor replaced."""

import math
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from reconet.errors import RecipeError
from reconet.models import Segmenter, fold_batchnorm
from reconet.models.context.low_rank import Factors, LowRankCore, reconstruct
from reconet.models.context.reconet import TensorReconstruction
from reconet.models.context.reconet_plus import FragmentReconstruction
from reconet.models.decompose import Decomposition, decompose, low_rank_core
from reconet.models.liveness import (
    FactorAxis,
    attention_spread,
    effective_rank,
    liveness,
    record_mean,
    relative_spread,
    replace_tensor,
    singular_values,
)
from tests.factories import tiny_model

RANK = 5
CONTEXTS = ("reconet", "reconet_plus")


def lively(context: str = "reconet", **options: Any) -> Segmenter:
    """Make a small network with uneven lambdas and norms that are not the identity."""
    model = tiny_model(context, rank=RANK, **options)
    core = low_rank_core(model)
    with torch.no_grad():
        for name, value in core.named_parameters():
            if "masks" in name:  # they start almost flat
                value.normal_()
            elif name in {"rank_logits_r", "weight_r"}:
                value.copy_(torch.linspace(-1, 1.2, RANK))
        model.classify.weight.normal_()
        if model.decoder is not None:
            model.decoder.correct.weight.normal_()
        model.train()(torch.rand(2, 3, 64, 96))
    return model.eval()


def random_image(height: int = 80, width: int = 64) -> Tensor:
    return torch.randint(0, 256, (1, 3, height, width), dtype=torch.uint8)


class Pass(NamedTuple):
    model: Segmenter
    image: Tensor
    parts: Decomposition


@pytest.fixture(scope="module", params=[*CONTEXTS, "reconet_plus, decoder"])
def decomposed(request: pytest.FixtureRequest) -> Pass:
    torch.manual_seed(0)
    context, _, decoder = request.param.partition(", ")
    model, image = lively(context, decoder="light" if decoder else "none"), random_image()
    return Pass(model, image, decompose(model, image))


def silenced(model: Segmenter, image: Tensor, gain_r: Tensor) -> Tensor:
    """Run the whole network with its lambdas changed: the slow way."""
    core, plain = low_rank_core(model), type(low_rank_core(model)).factors

    def factors(x_bchw: Tensor) -> object:
        whole = plain(core, x_bchw)
        return whole._replace(weight_r=whole.weight_r * gain_r)

    core.factors = factors  # type: ignore[assignment, method-assign]
    try:
        with torch.no_grad():
            return model.coarse(image)
    finally:
        del core.factors


def test_with_all_ranks_the_logits_are_the_networks(decomposed: Pass) -> None:
    model, image, parts = decomposed
    assert parts.rank == low_rank_core(model).rank == RANK
    with torch.no_grad():
        expected = model.coarse(image)
    torch.testing.assert_close(parts.logits(torch.ones(RANK)), expected, rtol=1e-4, atol=1e-5)


def test_tensors_of_ranks_sum_to_the_tensor(decomposed: Pass) -> None:
    every = torch.stack([decomposed.parts.sub_tensor(i) for i in range(RANK)])
    torch.testing.assert_close(every.sum(0), decomposed.parts.tensor())


def test_heat_is_the_mean_of_what_a_rank_adds(decomposed: Pass) -> None:
    core, parts = low_rank_core(decomposed.model), decomposed.parts
    weight_r, channel_brc, plane_brhw = parts.factors
    for rank in (0, 3):
        channel_c11 = channel_brc[0, rank][:, None, None]
        tensor_bchw = (weight_r[rank] * channel_c11 * plane_brhw[0, rank])[None]
        torch.testing.assert_close(parts.tensor_heat(rank), tensor_bchw[0].mean(0))
        added_bchw = core.apply_tensor(parts.x_bchw, tensor_bchw)
        torch.testing.assert_close(parts.heat(rank), added_bchw[0].mean(0))


def test_leaving_one_out_is_a_network_whose_lambda_is_zero_there(decomposed: Pass) -> None:
    model, image, parts = decomposed
    whole, *others = parts.leave_one_out()
    torch.testing.assert_close(whole, parts.logits(torch.ones(RANK)), rtol=1e-4, atol=1e-5)
    for off, logits in enumerate(others):
        expected = silenced(model, image, (torch.arange(RANK) != off).float())
        torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-4)


def test_ranks_of_reconet_plus_say_where_they_looked_and_those_of_the_paper_look_everywhere(
    decomposed: Pass,
) -> None:
    core, parts = low_rank_core(decomposed.model), decomposed.parts
    mask_hw = parts.gathered(1)
    if core.multiplies:
        assert mask_hw is None
        return
    assert mask_hw is not None
    assert mask_hw.shape == parts.x_bchw.shape[2:]
    assert mask_hw.sum().item() == pytest.approx(1)
    seen_c = (parts.x_bchw[0] * mask_hw).sum((1, 2))
    said_c = torch.relu(core.mix(seen_c) + core.bias_rc[1])  # type: ignore[operator, index]
    torch.testing.assert_close(parts.factors.channel_brc[0, 1], said_c)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("gpm", [True, False])
def test_it_works_with_and_without_global_pooling_and_on_a_folded_network(
    context: str, gpm: bool
) -> None:
    for model in (lively(context, gpm=gpm), fold_batchnorm(lively(context, gpm=gpm))):
        image = random_image(64, 96)
        with torch.no_grad():
            expected = model.coarse(image)
        got = decompose(model, image).logits(torch.ones(RANK))
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_a_network_without_ranks_is_refused() -> None:
    plain = tiny_model("fcn").eval()
    with pytest.raises(RecipeError, match="FCN has no ranks"):
        decompose(plain, random_image())
    without = tiny_model(tgm_trm=False)
    with pytest.raises(RecipeError, match="tgm_trm=false"):
        decompose(without.eval(), random_image())


def test_a_rank_that_is_not_there_is_refused(decomposed: Pass) -> None:
    with pytest.raises(RecipeError, match="no rank 5: they go from 0 to 4"):
        decomposed.parts.heat(RANK)


AXES: list[FactorAxis] = ["channel", "row", "column"]


def random_factors(rank: int = 3) -> Factors:
    return Factors(
        torch.rand(rank).softmax(0),
        torch.rand(2, rank, 6),
        torch.rand(2, rank, 5, 7),
    )


def test_the_attention_spread_equals_that_of_the_built_tensor() -> None:
    factors = random_factors()
    expected = relative_spread(reconstruct(factors).flatten(1))
    torch.testing.assert_close(attention_spread(factors), expected, atol=0, rtol=1e-5)


@pytest.mark.parametrize("axis", AXES)
def test_singular_values_equal_those_of_the_built_unfolding(axis: FactorAxis) -> None:
    factors = random_factors()
    attention_bchw = reconstruct(Factors(*(f.double() for f in factors)))
    unfolded = attention_bchw.movedim(AXES.index(axis) + 1, 1).flatten(2)
    expected = torch.linalg.svdvals(unfolded)[:, : {"channel": 3, "row": 5, "column": 7}[axis]]
    torch.testing.assert_close(singular_values(factors, axis), expected, atol=1e-6, rtol=1e-6)


def test_effective_rank_counts_equal_values_and_forgets_zeros() -> None:
    value_bn = torch.tensor([[1.0, 1.0, 1.0, 0.0], [5.0, 0.0, 0.0, 0.0]])
    torch.testing.assert_close(effective_rank(value_bn), torch.tensor([3.0, 1.0]))


def test_a_diverged_network_has_figures_that_are_no_numbers() -> None:
    factors = random_factors()
    broken = factors._replace(channel_brc=factors.channel_brc * torch.nan)
    assert all(math.isnan(value) for value in liveness(broken)[:2])


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
