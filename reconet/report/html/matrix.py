"""Draw a confusion matrix: cells with numbers, or one image if there are many classes.

Dimensions: k classes. share_kk[t, p]: of the pixels of true class t, the part predicted as p.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reconet.report.html.images import png_image
from reconet.report.html.markup import Markup, join, percent, scrolling, table, tag
from reconet.types import Colour

Shares = NDArray[np.float64]
CELL = 30
MOST_CELLS = 40  # classes; more become an image
MOST_NUMBERS = 24
LETTER = 7.2  # width of one, about
SMALLEST = 0.6  # of its size: the names can still be read
BLUE = (46, 125, 214)  # of the image; visible on white and on black


class Mistake(NamedTuple):
    """Pixels of one class that were predicted as another."""

    truth: int
    predicted: int
    share: float  # of the true class
    pixels: int


def shares(count_kk: NDArray[np.int64]) -> Shares:
    """Divide each row by its sum. A class without pixels has NaN."""
    total_k1 = count_kk.sum(1, keepdims=True).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(count_kk / total_k1, np.float64)


def largest_mistakes(count_kk: NDArray[np.int64], most: int = 10) -> list[Mistake]:
    """Return the largest mistakes, by their share of the true class."""
    share_kk = np.nan_to_num(shares(count_kk), nan=0.0)
    np.fill_diagonal(share_kk, 0.0)
    order = np.argsort(-share_kk, axis=None, kind="stable")[:most]
    pairs = [divmod(int(place), len(share_kk)) for place in order]
    return [
        Mistake(t, p, float(share_kk[t, p]), int(count_kk[t, p]))
        for t, p in pairs
        if share_kk[t, p] > 0
    ]


def draw_confusion(
    count_kk: NDArray[np.int64], classes: Sequence[str], palette: Sequence[Colour]
) -> Markup:
    """Draw the matrix, and list the largest mistakes beside it."""
    share_kk = shares(count_kk)
    if len(classes) > MOST_CELLS:
        drawn = _as_image(share_kk)
    else:
        drawn = scrolling(_as_cells(share_kk, classes, palette), "confusion matrix")
    rows = [
        (classes[m.truth], classes[m.predicted], percent(m.share), f"{m.pixels:,}")
        for m in largest_mistakes(count_kk, most=10 if len(classes) <= MOST_CELLS else 25)
    ]
    about = tag(
        "p",
        "Each row is a true class, each column a predicted class, in per cent of the row's pixels. "
        "The diagonal is right. Void pixels are not counted.",
    )
    worst = table(
        ("truth", "predicted as", "of its pixels", "pixels"), rows, caption="The largest mistakes"
    )
    return join([about, tag("div", drawn, worst, class_="beside")])


def _as_cells(share_kk: Shares, classes: Sequence[str], palette: Sequence[Colour]) -> Markup:
    longest = max(len(name) for name in classes)
    left = 24 + LETTER * min(longest, 24)
    top = 24 + LETTER * min(longest, 24) * 0.75
    side = CELL * len(classes)
    parts = []
    for number, (name, colour) in enumerate(zip(classes, palette, strict=True)):
        place = CELL * number
        parts += _names(name, colour, left, top, place)
        for other, share in enumerate(share_kk[number]):
            title = f"{name} predicted as {classes[other]}: {percent(share, digits=2)}"
            parts += _cell(left + CELL * other, top + place, share, title, len(classes))
    width, height = left + side + 0.6 * left, top + side + 2
    return tag(
        "svg",
        *parts,
        viewBox=f"0 0 {width:g} {height:g}",
        # On a phone it shrinks, so that no label is cut off. Below that it scrolls.
        style=f"width:{width:g}px;min-width:{SMALLEST * width:.0f}px",
        role="img",
        aria_label="confusion matrix; its largest mistakes are in the table below",
        class_="matrix",
    )


def _names(name: str, colour: Colour, left: float, top: float, place: float) -> list[Markup]:
    short = name if len(name) <= 24 else name[:23] + "…"
    middle, fill = place + CELL / 2, f"rgb{colour}"
    x, y = left + middle, top - 16
    return [
        tag("rect", x=left - 14, y=top + middle - 5, width=10, height=10, fill=fill, class_="edge"),
        tag("text", short, x=left - 19, y=top + middle + 4, text_anchor="end"),
        tag("rect", x=x - 5, y=top - 14, width=10, height=10, fill=fill, class_="edge"),
        tag("text", short, x=x, y=y - 3, transform=f"rotate(-45 {x:g} {y - 3:g})"),
    ]


def _cell(x: float, y: float, share: float, title: str, classes: int) -> list[Markup]:
    place = {"x": x + 0.5, "y": y + 0.5, "width": CELL - 1.0, "height": CELL - 1.0}
    about = tag("title", title)
    if math.isnan(share):
        return [tag("rect", about, **place, class_="none")]
    # Small shares would hardly be visible if the opacity were the share itself.
    parts = [tag("rect", about, **place, class_="cell", fill_opacity=round(share**0.6, 3))]
    if classes <= MOST_NUMBERS and share >= 0.005:
        light = "number light" if share > 0.4 else "number"
        parts.append(
            tag("text", f"{100 * share:.0f}", x=x + CELL / 2, y=y + CELL / 2 + 4, class_=light)
        )
    return parts


def _as_image(share_kk: Shares) -> Markup:
    """Draw one square of a few pixels for each pair. Its opacity shows the share."""
    alpha_kk = (255 * np.nan_to_num(share_kk, nan=0.0) ** 0.6).astype(np.uint8)
    zoom = max(1, 900 // len(share_kk))
    alpha_nn = alpha_kk.repeat(zoom, 0).repeat(zoom, 1)
    colour_nn3 = np.broadcast_to(np.array(BLUE, np.uint8), (*alpha_nn.shape, 3))
    image = np.concatenate([colour_nn3, alpha_nn[..., None]], axis=-1)
    return png_image(image, "confusion matrix, classes in their order", class_="matrix framed")
