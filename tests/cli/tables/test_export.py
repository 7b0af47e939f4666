"""What `reconet export` prints: lines that no table narrows, and figures that add up."""

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from reconet.cli.tables.export import export_tables
from reconet.export import Attempt, Difference, Export, input_size_advice
from reconet.recipes import find_recipe
from reconet.recipes.overrides import apply_overrides

TINY = find_recipe("scenes/tiny")
RESULT = Export(
    path=Path("runs/a/model-int8.xml"),
    format="openvino",
    how="OpenVINO int8",
    bytes=3 * 2**19,
    feed=input_size_advice(TINY),
    images="4 images of a dataset with a long name val",
    differences=(Difference(images=1, size=(64, 64), logits=0.1, labels=0.9999999),),
    calibrated_on="64 images of a dataset with a long name train",
    scored_on="500 images of a dataset with a long name val",
    tries=(Attempt(kept=(), before=0.559949, after=0.557751),),
)


def shown(result: Export) -> list[str]:
    page = io.StringIO()
    console = Console(width=200, file=page)
    for one in export_tables(result):
        console.print(one)
    return [line.rstrip() for line in page.getvalue().splitlines()]


def test_titles_are_lines_of_their_own_and_the_file_comes_last() -> None:
    lines = shown(RESULT)
    assert lines[0] == f"OpenVINO int8 against the network, on {RESULT.images}"
    title = f"int8, calibrated by {RESULT.calibrated_on}, scored on {RESULT.scored_on}"
    assert title in lines
    assert lines[-2:] == [RESULT.feed, f"{RESULT.path}: 1.50 MiB"]


def test_figures_are_rounded_so_that_they_add_up() -> None:
    words = [line.split() for line in shown(RESULT)]
    assert ["nothing", "55.99", "55.78", "0.21"] in words  # the true loss, 0.2198, is shown as 0.22
    assert ["1", "x", "64", "x", "64", "1.0e-01", "99.999", "%"] in words  # not all: not 100
    better = replace(RESULT, tries=(Attempt(kept=(), before=0.5, after=0.5000001),))
    assert ["nothing", "50.00", "50.00", "0.00"] in [line.split() for line in shown(better)]


def test_it_says_at_which_size_to_feed_images() -> None:
    assert "a long side of 64 pixels" in input_size_advice(TINY)
    assert "own size" in input_size_advice(apply_overrides(TINY, ["eval.relative_to=original"]))
