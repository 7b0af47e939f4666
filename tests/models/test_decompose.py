"""The attention of a RecoNet, rank by rank: everything against the whole network."""

from typing import Any

import pytest
import torch
from torch import Tensor

from reconet.errors import RecipeError
from reconet.models.decompose import Decomposition, decompose, reconstruction
from reconet.models.fold import fold_batchnorm
from reconet.models.segmenter import Segmenter
from tests.factories import tiny_model

RANK = 5


def lively(**options: Any) -> Segmenter:
    """Make a small network with uneven lambdas and norms that are not the identity."""
    model = tiny_model(rank=RANK, **options)
    with torch.no_grad():
        reconstruction(model).rank_logits_r.copy_(torch.linspace(-1, 1, RANK))
        model.classify.weight.normal_()
        model.train()(torch.rand(2, 3, 64, 96))
    return model.eval()


def random_image(height: int = 80, width: int = 64) -> Tensor:
    return torch.randint(0, 256, (1, 3, height, width), dtype=torch.uint8)


@pytest.fixture(scope="module")
def decomposed() -> tuple[Segmenter, Tensor, Decomposition]:
    torch.manual_seed(0)
    model, image = lively(), random_image()
    return model, image, decompose(model, image)


def silenced(model: Segmenter, image: Tensor, gain_r: Tensor) -> Tensor:
    """Run the whole network with its lambdas changed: the slow way."""
    core, plain = reconstruction(model), type(reconstruction(model)).factors

    def factors(x_bchw: Tensor) -> object:
        whole = plain(core, x_bchw)
        return whole._replace(weight_r=whole.weight_r * gain_r)

    core.factors = factors  # type: ignore[assignment]
    try:
        with torch.no_grad():
            return model.coarse(image)
    finally:
        del core.factors


def test_with_all_ranks_the_logits_are_the_networks(
    decomposed: tuple[Segmenter, Tensor, Decomposition],
) -> None:
    model, image, parts = decomposed
    assert parts.rank == RANK
    with torch.no_grad():
        expected = model.coarse(image)
    torch.testing.assert_close(parts.logits(torch.ones(RANK)), expected, rtol=1e-4, atol=1e-5)


def test_sub_attentions_sum_to_the_attention(
    decomposed: tuple[Segmenter, Tensor, Decomposition],
) -> None:
    *_, parts = decomposed
    every = torch.stack([parts.sub_attention(i) for i in range(RANK)])
    torch.testing.assert_close(every.sum(0), parts.attention())


def test_a_sub_attention_is_an_outer_product(
    decomposed: tuple[Segmenter, Tensor, Decomposition],
) -> None:
    *_, parts = decomposed
    weight_r, c, h, w = parts.factors
    by_hand = weight_r[2] * torch.einsum("c,h,w->chw", c[0, 2], h[0, 2], w[0, 2])
    torch.testing.assert_close(parts.sub_attention(2)[0], by_hand)


def test_heat_is_the_mean_of_the_weighted_map(
    decomposed: tuple[Segmenter, Tensor, Decomposition],
) -> None:
    *_, parts = decomposed
    attention = parts.sub_attention(3)
    torch.testing.assert_close(parts.heat(3), (attention * parts.x_bchw)[0].mean(0))
    torch.testing.assert_close(parts.attention_heat(3), attention[0].mean(0))


@pytest.mark.parametrize("off", [0, RANK - 1])
def test_a_rank_switched_off_is_a_network_whose_lambda_is_zero_there(
    off: int, decomposed: tuple[Segmenter, Tensor, Decomposition]
) -> None:
    model, image, parts = decomposed
    keep_r = torch.arange(RANK) != off
    expected = silenced(model, image, keep_r.float())
    torch.testing.assert_close(parts.logits(keep_r), expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(parts.logits(keep_r), parts.logits(torch.ones(RANK)), atol=1e-4)


def test_gains_are_factors_of_lambda(decomposed: tuple[Segmenter, Tensor, Decomposition]) -> None:
    model, image, parts = decomposed
    gain_r = torch.tensor([2.0, 0.0, 0.5, 1.0, 3.0])
    expected = silenced(model, image, gain_r)
    torch.testing.assert_close(parts.logits(gain_r), expected, rtol=1e-4, atol=1e-5)


def test_parts_and_rest_sum_to_the_pre_activation(
    decomposed: tuple[Segmenter, Tensor, Decomposition],
) -> None:
    *_, parts = decomposed
    total = torch.stack([parts.part(i) for i in range(RANK)]).sum(0)
    torch.testing.assert_close(total, parts.contribution(torch.ones(RANK)), rtol=1e-4, atol=1e-5)


def test_it_works_without_global_pooling_and_on_a_folded_network() -> None:
    for model in (lively(gpm=False), fold_batchnorm(lively())):
        image = random_image(64, 96)
        with torch.no_grad():
            expected = model.coarse(image)
        got = decompose(model, image).logits(torch.ones(RANK))
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_several_images_at_once_are_seen_as_each_alone() -> None:
    model, images = lively(), torch.cat([random_image(), random_image()])
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


def test_a_rank_that_is_not_there_is_refused(
    decomposed: tuple[Segmenter, Tensor, Decomposition],
) -> None:
    with pytest.raises(RecipeError, match="no rank 5: they go from 0 to 4"):
        decomposed[2].heat(RANK)
