"""Means, intervals and one spread for all variants: against scipy, slow sums and drawn scores."""

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped]

from reconet.study import (
    Estimate,
    common_spread,
    difference,
    estimate,
    probability_of_spreads,
)


def test_intervals_are_those_of_the_tests_of_scipy() -> None:
    values = [0.41, 0.44, 0.39, 0.47]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    alone = estimate(values)
    assert alone.half_width is not None
    assert (alone.mean - alone.half_width, alone.mean + alone.half_width) == pytest.approx(
        (low, high)
    )
    # The seed that only one of two has says nothing about their difference.
    paired = difference({0: 0.5, 1: 0.45, 2: 0.61}, {0: 0.4, 1: 0.41, 2: 0.52, 7: 0.9})
    interval = stats.ttest_rel([0.5, 0.45, 0.61], [0.4, 0.41, 0.52]).confidence_interval(0.95)
    assert paired is not None
    assert paired.half_width is not None
    assert paired.mean + paired.half_width == pytest.approx(interval.high)
    assert paired.count == 3


def test_one_seed_has_no_interval_and_none_no_difference() -> None:
    assert estimate([0.3]) == Estimate(mean=0.3, half_width=None, count=1)
    assert difference({0: 0.3}, {1: 0.4}) is None


def drawn(
    variants: int, seeds: int, rng: np.random.Generator, deviation: float = 0.5
) -> dict[str, dict[int, float]]:
    shift = rng.normal(0, 2, seeds)
    return {
        f"v{v}": {s: 50 + v + shift[s] + rng.normal(0, 0.5) for s in range(seeds)}
        for v in range(variants)
    }


def test_two_variants_have_the_paired_interval_of_student() -> None:
    scores = drawn(2, 4, np.random.default_rng(0))
    ours = difference(scores["v1"], scores["v0"], common_spread(scores))
    expected = difference(scores["v1"], scores["v0"])
    assert ours is not None
    assert expected is not None
    assert ours.mean == expected.mean
    assert ours.half_width == pytest.approx(expected.half_width)


def test_the_spread_is_what_variants_and_seeds_leave() -> None:
    scores = drawn(4, 3, np.random.default_rng(1))
    table_vs = np.array([list(by_seed.values()) for by_seed in scores.values()])
    left_vs = table_vs - table_vs.mean(1, keepdims=True) - table_vs.mean(0) + table_vs.mean()
    spread = common_spread(scores)
    assert spread is not None
    assert spread.freedom == 3 * 2
    assert spread.deviation == pytest.approx(np.sqrt((left_vs**2).sum() / 6))


def test_variants_may_have_different_seeds() -> None:
    scores = {"a": {0: 1.0, 1: 2.0, 2: 3.5}, "b": {0: 2.0, 1: 3.1}, "c": {2: 9.0}}
    spread = common_spread(scores)
    assert spread is not None
    assert spread.freedom == 6 - (3 + 3 - 1)  # c and seed 2 of a tell only their own means
    assert spread.deviation == pytest.approx(abs((2.0 - 1.0) - (3.1 - 2.0)) / 2)
    found = difference(scores["b"], scores["a"], spread)
    assert found is not None
    assert found.count == 2


def test_equal_scores_are_alike_and_one_constant_variant_is_not() -> None:
    assert probability_of_spreads([[1.0, 1.0], [2.0, 2.0]]) == 1
    assert probability_of_spreads([[1.0, 1.0], [2.0, 2.5]]) == 0
    assert probability_of_spreads([[1.0, 2.0]]) == 1


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(4)
    hits, widths, own_widths, rounds = 0, 0.0, 0.0, 400
    for _ in range(rounds):
        scores = drawn(8, 3, rng)
        found = difference(scores["v3"], scores["v0"], common_spread(scores))
        own = difference(scores["v3"], scores["v0"])
        assert found is not None
        assert found.half_width is not None
        assert own is not None
        assert own.half_width is not None
        hits += abs(found.mean - 3) < found.half_width
        widths, own_widths = widths + found.half_width, own_widths + own.half_width
    assert 0.92 < hits / rounds < 0.98  # 95 % +- 2.7 standard errors
    assert widths < 0.65 * own_widths
