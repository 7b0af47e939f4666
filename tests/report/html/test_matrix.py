"""The confusion matrix: shares, mistakes, and a drawing for any number of classes."""

import numpy as np
import pytest

from reconet.report.html import html_page
from reconet.report.html.matrix import draw_confusion, largest_mistakes, shares
from tests.pages import EVIL, Page


def test_shares_and_mistakes_come_from_the_rows() -> None:
    count_kk = np.array([[8, 2, 0], [30, 70, 0], [0, 0, 0]])
    assert shares(count_kk)[0].tolist() == [0.8, 0.2, 0]
    assert np.isnan(shares(count_kk)[2]).all()
    assert [(m.truth, m.predicted, m.pixels) for m in largest_mistakes(count_kk)] == [
        (1, 0, 30),
        (0, 1, 2),
    ]


@pytest.mark.parametrize("classes", [1, 3, 30, 60])
def test_a_matrix_of_any_size_is_drawn(classes: int) -> None:
    count_kk = np.eye(classes, dtype=np.int64) * 5
    names = [f"{EVIL}{k}" for k in range(classes)]
    page = Page(draw_confusion(count_kk, names, [(1, 2, 3)] * classes))
    assert len(page.all("img")) == (classes > 40)
    cells = [rect for rect in page.all("rect") if rect.get("class") == "cell"]
    assert len(cells) == (classes**2 if classes <= 40 else 0)


def test_a_matrix_shrinks_on_a_phone_so_that_no_label_is_cut_off() -> None:
    names = [f"class {k}" for k in range(14)]
    (svg,) = Page(draw_confusion(np.eye(14, dtype=np.int64), names, [(1, 2, 3)] * 14)).all("svg")
    style = svg["style"]
    assert style is not None
    width, least = (float(part.split(":")[1].removesuffix("px")) for part in style.split(";"))
    assert least <= 360 < width
    assert ".matrix{max-width:100%" in html_page("a page")
