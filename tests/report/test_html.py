"""Charts, the confusion matrix and the escaping of pages."""

import re

import numpy as np
import pytest
import torch

from reconet.report import (
    Series,
    confusion_matrix,
    html_page,
    image_source,
    line_chart,
)
from tests.pages import EVIL, Page


def numbers(points: str) -> np.ndarray:
    return np.array([pair.split(",") for pair in points.split()], float)


def test_a_chart_says_its_ends_and_leaves_out_what_is_no_number() -> None:
    chart = line_chart("Loss", [Series("a", [(1, 2.0), (2, float("nan")), (3, 5.0)])])
    assert chart is not None
    assert chart["label"] == "Loss. a: 2 at step 1, 5 at step 3."
    assert chart["lost"] == "Not finite, so not drawn: 1 value."
    ((_, _, (line,), dots, _),) = chart["curves"]
    assert [dot[2:] for dot in dots] == [(1, 2.0), (3, 5.0)]
    assert len(numbers(line)) == 2
    assert line_chart("Loss", [Series("a", [])]) is None


@pytest.mark.parametrize("values", [[0.13, 0.97], [-3, 4], [1e-5, 3e-5], [5.0], [0.0], [1e12]])
def test_an_axis_has_few_round_numbers_that_enclose_the_values(values: list[float]) -> None:
    chart = line_chart("x", [Series("a", list(enumerate(values, 1)))], low=None)
    assert chart is not None
    places, texts = zip(*chart["y"], strict=True)
    assert 2 <= len(texts) <= 8
    assert float(texts[0]) <= min(values)
    assert max(values) <= float(texts[-1])
    assert (places[0], places[-1]) == (194, 12)


def test_a_long_curve_keeps_its_spikes_and_is_calmed() -> None:
    points = [(float(x), float(x % 2)) for x in range(10_000)]
    points[1234], points[7777] = (1234.0, 99.0), (7777.0, -99.0)
    chart = line_chart("x", [Series("a", points)])
    assert chart is not None
    ((_, _, (raw, smooth), dots, _),) = chart["curves"]
    assert not dots
    assert len(numbers(raw)) <= 300
    assert np.ptp(numbers(raw)[:, 1]) > 150
    assert np.ptp(numbers(smooth)[:, 1]) < 10
    assert (np.diff(numbers(raw)[:, 0]) >= 0).all()


def test_shares_and_mistakes_come_from_the_rows() -> None:
    matrix = confusion_matrix(torch.tensor([[8, 2, 0], [30, 70, 0], [0, 0, 0]]), ("a", "b", "c"))
    assert matrix["shares"][0] == pytest.approx([0.8, 0.2, 0])
    assert np.isnan(matrix["shares"][2]).all()
    assert [row[:2] + row[3:] for row in matrix["worst"]] == [("b", "a", "30"), ("a", "b", "2")]
    many = confusion_matrix(torch.eye(60).long(), [str(k) for k in range(60)])
    assert many["shares"] is None
    assert many["image"].startswith("data:image/png;base64,")


def test_text_of_any_page_is_escaped_and_what_a_browser_would_obey_is_written_out() -> None:
    source = image_source(np.zeros((2, 2, 3), np.uint8))
    ranges, command = [(EVIL, "0", "1")], "a\u202eb"
    names = {"title": EVIL, "model": EVIL, "data": EVIL, "about": EVIL, "steps": "1 step"}
    text = html_page(
        "explain.html", kind="explain", figures={"figure.png": source}, ranges=ranges, right=None,
        size=(1, 2), command=command, **names,
    )  # fmt: skip
    page = Page(text)
    assert not page.all("script")
    assert page.text.count(" ".join(EVIL.split())) >= 5
    assert r"a\u202eb" in page.text
    assert not re.search("src=['\"]http", text)
