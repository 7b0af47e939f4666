"""The figures of a study show its numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.lines import Line2D

from reconet.study import Estimate, estimate
from reconet.study.plots import (
    ACCENT,
    draw_cost,
    draw_differences,
    draw_figures,
    draw_spectra,
    encode_png,
)
from reconet.study.results import StudyResult, VariantResult
from reconet.study.trial import Spectrum, TrialResult
from reconet.study.variants import STUDIES
from tests.factories import tiny_recipe


def variant_result(
    variant: str, *, rank: int = 0, macs: int = 10**9, pairs: dict[int, float] | None = None
) -> VariantResult:
    def parts(value: float) -> dict[str, float]:
        return {"lambda": float(rank), "channel": value, "row": value / 2, "column": value / 4}

    spectrum = Spectrum(
        rank=rank,
        effective=parts(1.5),
        for_90=parts(2.0),
        for_99=parts(4.0),
    )
    trial = TrialResult(
        variant=variant,
        seed=0,
        steps=10,
        protocol="",
        figures={"miou": 0.5},
        params=10,
        macs=macs,
        images_per_second=1.0,
        seconds=1.0,
        trajectory=[],
        spectrum=spectrum if rank else None,
        environment={},
    )
    score = Estimate(mean=0.5, half_width=0.1, count=2)
    return VariantResult(
        variant=variant,
        about="",
        trials=(trial, trial),
        score=score,
        difference=None if pairs is None else estimate(list(pairs.values())),
        difference_by_seed=pairs or {},
        paper=None,
    )


def points(line: Line2D) -> list[list[float]]:
    xy: list[list[float]] = np.asarray(line.get_xydata()).tolist()
    return xy


def result(study: str, *rows: VariantResult) -> StudyResult:
    return StudyResult(
        study=STUDIES[study],
        recipe=tiny_recipe(),
        seeds=(0, 1),
        spread=None,
        baseline="fcn",
        rows=rows,
        missing=(),
        out=Path("runs/study"),
    )


def test_ranks_in_use_are_drawn_against_the_rank() -> None:
    figure = draw_spectra(
        result("rank", variant_result("r4", rank=4), variant_result("r16", rank=16))
    )
    assert figure is not None
    left, right = figure.axes
    lines = {line.get_label(): points(line) for line in left.lines}
    assert lines["lambda"] == [[4, 4], [16, 16]]
    assert lines["row"] == [[4, 0.75], [16, 0.75]]
    needed = {line.get_label(): points(line) for line in right.lines}
    assert needed["channel"] == [[4, 4.0], [16, 4.0]]


def test_costs_are_drawn_beside_scores_and_contexts_with_ranks_stand_out() -> None:
    contexts = result(
        "contexts", variant_result("a$b", macs=2 * 10**9), variant_result("new", macs=10**9, rank=4)
    )
    figure = draw_cost(contexts)
    assert figure is not None
    scores, costs = figure.axes
    diamonds = [line for line in scores.lines if line.get_marker() == "D"]
    assert [points(line) for line in diamonds] == [[[50.0, 0]], [[50.0, 1]]]
    assert [line.get_color() == ACCENT for line in diamonds] == [False, True]
    assert points(costs.lines[0]) == [[2.0, 0], [1.0, 1]]
    assert encode_png(figure).startswith(b"\x89PNG")  # a dollar sign is no formula


def test_differences_are_drawn_with_their_seeds_and_stand_out_without_zero() -> None:
    figure = draw_differences(
        result(
            "components",
            variant_result("fcn"),
            variant_result("gpm", pairs={0: 0.05, 1: 0.051}),
            variant_result("both", pairs={0: -0.02, 1: 0.03}),
        )
    )
    assert figure is not None
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["gpm", "both"]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert points(dots[0]) == [pytest.approx([5, 0]), pytest.approx([5.1, 0])]
    assert points(dots[1]) == [pytest.approx([-2, 1]), pytest.approx([3, 1])]
    assert [line.get_color() == ACCENT for line in dots] == [True, False]
    assert "difference to fcn" in axes.get_xlabel()
    assert draw_differences(result("components", variant_result("fcn"))) is None


def test_what_has_nothing_to_show_is_not_drawn() -> None:
    empty = replace(variant_result("r4", rank=4), trials=(), score=None)
    assert draw_figures(result("rank", empty)) == {}
    assert "spectrum" not in draw_figures(result("contexts", variant_result("fcn")))
    assert "cost" in draw_figures(result("contexts", variant_result("fcn")))
