import math

import pytest
import torch

from reconet.models.context.low_rank import Factors, reconstruct
from reconet.models.liveness import (
    FactorAxis,
    attention_spread,
    effective_rank,
    liveness,
    relative_spread,
    singular_values,
)

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


def test_a_dead_attention_shows_as_zero_spread_and_rank_one() -> None:
    half = Factors(
        torch.full((4,), 0.25),
        torch.full((1, 4, 6), 0.5),
        torch.full((1, 4, 5, 7), 0.25),
    )
    figures = liveness(half)
    assert figures.attention_spread == pytest.approx(0, abs=1e-7)
    assert figures.effective_rank == pytest.approx(1, abs=1e-5)
    assert figures.lambda_spread == pytest.approx(0, abs=1e-7)


def test_a_live_attention_shows_as_such() -> None:
    figures = liveness(random_factors(rank=8))
    assert figures.attention_spread > 0.1
    assert figures.effective_rank > 1.5
    assert figures.lambda_spread > 0.05


def test_relative_spread_of_two_values_by_hand() -> None:
    assert relative_spread(torch.tensor([1.0, 3.0])).item() == pytest.approx(0.5)


def test_a_diverged_network_has_figures_that_are_no_numbers() -> None:
    factors = random_factors()
    broken = factors._replace(channel_brc=factors.channel_brc * torch.nan)
    assert all(math.isnan(value) for value in liveness(broken)[:2])
