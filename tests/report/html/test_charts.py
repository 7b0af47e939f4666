"""Curves: axes, lines and what is left out."""

import numpy as np
import pytest

from reconet.report.html.charts import (
    Scale,
    Series,
    finite,
    line_chart,
    smooth,
    thin_out,
    tick_text,
    ticks,
)
from tests.pages import Page


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0.13, 0.97, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-3, 4, [-4, -2, 0, 2, 4]),
        (0, 80_000, [0, 20_000, 40_000, 60_000, 80_000]),
        (1e-5, 3e-5, [1e-5, 1.5e-5, 2e-5, 2.5e-5, 3e-5]),
    ],
)
def test_ticks_are_round_and_enclose(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize("value", [0.0, 5.0, -1e-9, 1e12])
def test_one_value_alone_still_has_an_axis(value: float) -> None:
    found = ticks(value, value)
    assert found[0] <= value <= found[-1]
    assert 2 <= len(found) <= 6


def test_numbers_beside_an_axis_are_short() -> None:
    values = [0, 0.5, 2500, 40_000, 2e6, 0.00015, -5e-5, 1e-3]
    written = ["0", "0.5", "2500", "40k", "2M", "1.5e-4", "-5e-5", "0.001"]
    assert [tick_text(value) for value in values] == written


def test_ticks_are_few_and_enclose_whatever_the_range() -> None:
    rng = np.random.default_rng(0)
    for low, size in zip(rng.normal(0, 1e3, 300), 10 ** rng.uniform(-6, 6, 300), strict=True):
        found = ticks(low, low + size)
        slack = 1e-6 * size
        assert 2 <= len(found) <= 6
        assert found[0] <= low + slack
        assert found[-1] >= low + size - slack


def test_a_scale_maps_its_ends_to_its_ends() -> None:
    scale = Scale(2, 4, 100, 0)
    assert (scale(2), scale(3), scale(4)) == (100, 50, 0)


def test_thinning_keeps_the_spikes_and_the_order() -> None:
    points = [(float(x), 1.0) for x in range(10_000)]
    points[1234], points[7777] = (1234.0, 99.0), (7777.0, -99.0)
    kept = thin_out(points, 300)
    assert len(kept) <= 300
    assert {(1234.0, 99.0), (7777.0, -99.0)} <= set(kept)
    assert kept == sorted(kept)


def test_smoothing_leaves_a_straight_line_and_calms_noise() -> None:
    line = [(float(x), 3.0 * x) for x in range(200)]
    assert smooth(line) == [pytest.approx(point) for point in line]
    noise = [(float(x), float(x % 2)) for x in range(600)]
    assert np.std([y for _, y in smooth(noise)][20:-20]) < 0.1


def test_a_chart_says_its_ends_and_leaves_out_what_is_no_number() -> None:
    series = [Series("a<b", [(1, 2.0), (2, float("nan")), (3, 5.0)], 1)]
    assert finite(series[0].points) == [(1, 2.0), (3, 5.0)]
    page = Page(line_chart("Loss", series))
    assert page.all("svg")[0]["aria-label"] == "Loss. a<b: 2 at step 1, 5 at step 3."
    assert "a<b, step 3: 5" in page.text
    assert len(page.all("circle")) == 2
    assert "nothing was logged" in Page(line_chart("Loss", [Series("a", [])])).text
