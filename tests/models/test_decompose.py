"""Networks with ranks, taken apart rank by rank: everything against the whole network."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from reconet.errors import RecipeError
from reconet.models.decompose import Decomposition, decompose, low_rank_core
from reconet.models.fold import fold_batchnorm
from reconet.models.segmenter import Segmenter
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


def test_the_tensor_of_a_rank_is_an_outer_product(decomposed: Pass) -> None:
    weight_r, channel_brc, plane_brhw = decomposed.parts.factors
    by_hand = weight_r[2] * channel_brc[0, 2][:, None, None] * plane_brhw[0, 2]
    torch.testing.assert_close(decomposed.parts.sub_tensor(2)[0], by_hand)


def test_the_result_of_the_core_is_the_sum_of_what_the_ranks_add(decomposed: Pass) -> None:
    core, parts = low_rank_core(decomposed.model), decomposed.parts
    added = [core.apply_tensor(parts.x_bchw, parts.sub_tensor(i)) for i in range(RANK)]
    with torch.no_grad():
        expected = core(parts.x_bchw)
    torch.testing.assert_close(torch.stack(added).sum(0), expected, rtol=1e-4, atol=1e-5)


def test_heat_is_the_mean_of_what_a_rank_adds(decomposed: Pass) -> None:
    core, parts = low_rank_core(decomposed.model), decomposed.parts
    tensor = parts.sub_tensor(3)
    added = core.apply_tensor(parts.x_bchw, tensor)
    torch.testing.assert_close(parts.heat(3), added[0].mean(0))
    torch.testing.assert_close(parts.tensor_heat(3), tensor[0].mean(0))


@pytest.mark.parametrize("off", [0, RANK - 1])
def test_a_rank_switched_off_is_a_network_whose_lambda_is_zero_there(
    off: int, decomposed: Pass
) -> None:
    model, image, parts = decomposed
    keep_r = torch.arange(RANK) != off
    expected = silenced(model, image, keep_r.float())
    torch.testing.assert_close(parts.logits(keep_r), expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(parts.logits(keep_r), parts.logits(torch.ones(RANK)), atol=1e-4)


def test_leaving_one_out_is_a_network_whose_lambda_is_zero_there(decomposed: Pass) -> None:
    model, image, parts = decomposed
    whole, *others = parts.leave_one_out()
    torch.testing.assert_close(whole, parts.logits(torch.ones(RANK)), rtol=1e-4, atol=1e-5)
    for off, logits in enumerate(others):
        expected = silenced(model, image, (torch.arange(RANK) != off).float())
        torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-4)


def test_gains_are_factors_of_lambda(decomposed: Pass) -> None:
    model, image, parts = decomposed
    gain_r = torch.tensor([2.0, 0.0, 0.5, 1.0, 3.0])
    expected = silenced(model, image, gain_r)
    torch.testing.assert_close(parts.logits(gain_r), expected, rtol=1e-4, atol=1e-5)


def test_parts_and_rest_sum_to_the_pre_activation(decomposed: Pass) -> None:
    parts = decomposed.parts
    total = torch.stack([parts.part(i) for i in range(RANK)]).sum(0)
    torch.testing.assert_close(total, parts.contribution(torch.ones(RANK)), rtol=1e-4, atol=1e-5)


def test_without_any_rank_the_rest_alone_is_left(decomposed: Pass) -> None:
    model, image, parts = decomposed
    nothing = parts.logits(torch.zeros(RANK))
    torch.testing.assert_close(nothing, parts.finish(parts.rest_bchw))
    torch.testing.assert_close(
        nothing, silenced(model, image, torch.zeros(RANK)), rtol=1e-4, atol=1e-5
    )


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


@pytest.mark.parametrize("context", CONTEXTS)
def test_several_images_at_once_are_seen_as_each_alone(context: str) -> None:
    model, images = lively(context), torch.cat([random_image(), random_image()])
    keep_r = torch.tensor([True, False, True, True, False])
    together = decompose(model, images).logits(keep_r)
    alone = torch.cat([decompose(model, one[None]).logits(keep_r) for one in images])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


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
