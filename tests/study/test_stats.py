"""Intervals, against scipy."""

import math

import numpy as np
import pytest

from reconet.study.stats import Estimate, estimate, paired_difference, t_probability, t_quantile


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 30, 101])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_quantiles_are_those_of_scipy(freedom: int, confidence: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    expected = stats.t.ppf(0.5 + confidence / 2, freedom)
    assert t_quantile(confidence, freedom) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("freedom", [1, 2, 7, 8])
def test_probabilities_are_those_of_scipy(freedom: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    for t in (0.0, 0.3, 2.0, 40.0):
        expected = stats.t.cdf(t, freedom) - stats.t.cdf(-t, freedom)
        assert t_probability(t, freedom) == pytest.approx(expected, abs=1e-12)


def test_the_interval_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    values = [0.41, 0.44, 0.39, 0.47]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    ours = estimate(values)
    assert ours.low == pytest.approx(low)
    assert ours.high == pytest.approx(high)


def test_the_paired_difference_is_the_test_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    ours, base = {0: 0.5, 1: 0.45, 2: 0.61}, {0: 0.4, 1: 0.41, 2: 0.52, 7: 0.9}
    difference = paired_difference(ours, base)
    assert difference is not None
    interval = stats.ttest_rel(list(ours.values()), [0.4, 0.41, 0.52]).confidence_interval(0.95)
    assert difference.low == pytest.approx(interval.low)
    assert difference.high == pytest.approx(interval.high)
    assert difference.count == 3  # the seed that only one of them has says nothing


def test_one_seed_has_no_interval_and_none_no_difference() -> None:
    assert estimate([0.3]) == Estimate(mean=0.3, half_width=None, count=1)
    assert paired_difference({0: 0.3}, {1: 0.4}) is None


def test_seeds_that_move_together_have_a_narrow_difference() -> None:
    base = {0: 0.1, 1: 0.5, 2: 0.9}
    ours = {seed: value + 0.02 + 0.001 * seed for seed, value in base.items()}
    difference = paired_difference(ours, base)
    alone = estimate(list(ours.values()))
    assert difference is not None
    assert difference.half_width is not None
    assert alone.half_width is not None
    assert difference.half_width < 0.01 * alone.half_width
    assert difference.low is not None
    assert difference.low > 0
    assert math.isclose(difference.mean, 0.021)
