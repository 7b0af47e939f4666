"""Figures of a study show the numbers that it has found."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.lines import Line2D

from reconet.recipes import find_recipe
from reconet.study.run_trial import CellResult
from reconet.study.variants import STUDIES
from reconet.study.plots import ACCENT, cost, figures, png, spectra
from reconet.study.result import Row, StudyResult
from reconet.study.spectrum import Spectrum
from reconet.study.stats import Estimate


def found(variant: str, *, rank: int = 0, macs: int = 10**9) -> Row:
    def parts(value: float) -> dict[str, float]:
        return {"lambda": float(rank), "channel": value, "row": value / 2, "column": value / 4}

    spectrum = Spectrum(
        rank=rank,
        effective=parts(1.5),
        for_90=parts(2.0),
        for_99=parts(4.0),
        between_images=0.01,
    )
    cell = CellResult(
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
    return Row(
        variant=variant, about="", cells=(cell, cell), score=score, difference=None, paper=None
    )


def points(line: Line2D) -> list[list[float]]:
    found: list[list[float]] = np.asarray(line.get_xydata()).tolist()
    return found


def result(study: str, *rows: Row) -> StudyResult:
    return StudyResult(
        study=STUDIES[study],
        recipe=find_recipe("scenes/tiny"),
        seeds=(0, 1),
        rows=rows,
        missing=(),
        out=Path("runs/study"),
    )


def test_ranks_in_use_are_drawn_against_the_rank() -> None:
    figure = spectra(result("rank", found("r4", rank=4), found("r16", rank=16)))
    assert figure is not None
    left, right = figure.axes
    lines = {line.get_label(): points(line) for line in left.lines}
    assert lines["lambda"] == [[4, 4], [16, 16]]
    assert lines["row"] == [[4, 0.75], [16, 0.75]]
    needed = {line.get_label(): points(line) for line in right.lines}
    assert needed["channel"] == [[4, 4.0], [16, 4.0]]


def test_scores_are_drawn_against_their_cost_and_reconet_stands_out() -> None:
    shown = result("contexts", found("a$b", macs=2 * 10**9), found("reconet", macs=10**9))
    figure = cost(shown)
    assert figure is not None
    (axes,) = figure.axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [points(line) for line in dots] == [[[2.0, 50.0]], [[1.0, 50.0]]]
    assert [line.get_color() == ACCENT for line in dots] == [False, True]
    assert png(figure).startswith(b"\x89PNG")  # a dollar sign is no formula


def test_what_has_nothing_to_show_is_not_drawn() -> None:
    empty = replace(found("r4", rank=4), cells=(), score=None)
    assert figures(result("rank", empty)) == {}
    assert "spectrum" not in figures(result("contexts", found("fcn")))
    assert "cost" in figures(result("contexts", found("fcn")))


def test_names_of_neighbours_are_not_on_each_other() -> None:
    figure = cost(result("contexts", found("one"), found("two"), found("far", macs=9 * 10**9)))
    assert figure is not None
    one, two, far = (text.get_position()[1] for text in figure.axes[0].texts)
    assert one != two
    assert far == one
