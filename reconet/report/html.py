"""Fill the templates of pages: one HTML file each, which loads nothing from elsewhere.

templates/base.html     the page around all, with style.css inside: light, dark, phone and print
templates/macros.html   tables, figures, charts and a confusion matrix
templates/*.html        one for each kind of page

Text is escaped unless a template wrote it. Names may hold anything, so what a browser would obey
is written out.
"""

import math
from base64 import b64encode
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from PIL import Image as Pillow
from torch import Tensor

from reconet.system.readable import counted, printable
from reconet.system.reading import TEXT_BYTES, open_file
from reconet.types import Image

WIDTH, HEIGHT = 420, 230  # of a chart
LEFT, RIGHT, TOP, BOTTOM = 50, 406, 12, 194  # its axes
STYLES = 8  # curves that style.css can tell apart
FEW_POINTS = 40  # a curve with no more has dots and is not smoothed
STRETCHES = 150  # of a longer curve; each keeps its lowest and highest point, so no spike is lost
MOST_CELLS, MOST_NUMBERS = 40, 24  # classes of a confusion matrix; more become an image

Point = tuple[float, float]


def html_page(template: str, **values: Any) -> str:
    """Fill a template of a page."""
    return _TEMPLATES.get_template(template).render(values)


def is_page(path: Path, kind: str) -> bool:
    """Return whether a file is a page of this kind, which a new one may replace."""
    with open_file(path, limit=TEXT_BYTES) as file:
        return f"reconet {kind}</title>".encode() in file.read(4096)


def percent(value: float | None, digits: int = 1, absent: str = "-") -> str:
    """Write a fraction in per cent, or `absent` if there is none."""
    if value is None or math.isnan(value):
        return absent
    return f"{100 * value:.{digits}f}\u00a0%"


def png_source(data: bytes) -> str:
    """Return the source of an <img> whose PNG is inside the page."""
    return f"data:image/png;base64,{b64encode(data).decode()}"


def image_source(pixels: NDArray[np.uint8], kind: str = "png") -> str:
    """Return the source of an <img>: a drawing as PNG, a photograph as JPEG."""
    buffer = BytesIO()
    Pillow.fromarray(pixels).save(buffer, kind, quality=88)  # which PNG ignores
    return f"data:image/{kind};base64,{b64encode(buffer.getvalue()).decode()}"


class Series(NamedTuple):
    """One curve of a chart."""

    name: str
    points: Sequence[Point]
    style: int = 0


def line_chart(
    title: str, series: Iterable[Series], *, about: str = "", unit: str = "", low: float | None = 0
) -> dict[str, Any] | None:
    """Compute where the curves of a chart are, for its macro. None: there are no points.

    The vertical axis reaches down to `low`.
    """
    given = [Series(one.name, list(one.points), one.style) for one in series]
    drawn = [one._replace(points=[p for p in one.points if math.isfinite(p[1])]) for one in given]
    lost = sum(len(one.points) for one in given) - sum(len(one.points) for one in drawn)
    drawn = [one for one in drawn if one.points]
    if not drawn and not lost:
        return None
    chart = {"title": title, "about": about, "unit": unit, "names": len(given) > 1}
    chart["lost"] = f"Not finite, so not drawn: {counted(lost, 'value')}." if lost else ""
    xs = [x for one in drawn for x, _ in one.points] or [1.0]
    ys = [y for one in drawn for _, y in one.points] or [0.0]
    # The horizontal axis ends where the training ended, the vertical one at a round number.
    end, up = max(1.0, *xs), _ticks(min(ys) if low is None else min(low, *ys), max(ys))

    def place(point: Point) -> Point:
        x = LEFT + (RIGHT - LEFT) * point[0] / end
        return round(x, 1), round(
            BOTTOM - (BOTTOM - TOP) * (point[1] - up[0]) / (up[-1] - up[0]), 1
        )

    ticks_x = [(place((x, up[0]))[0], f"{x:g}") for x in _ticks(0, end) if x <= end]
    ticks_y = [(place((0, y))[1], f"{y:g}") for y in up]
    curves = []
    for one in drawn:
        few = len(one.points) <= FEW_POINTS
        lines = [one.points] if few else [_thin_out(one.points), _thin_out(_smooth(one.points))]
        dots = [(*place(point), *point) for point in one.points] if few else []
        drawn_lines = [" ".join("{:g},{:g}".format(*place(p)) for p in line) for line in lines]
        ends = [f"{y:.4g}{unit} at step {x:g}" for x, y in (one.points[0], one.points[-1])]
        about_ends = f"{one.name}: {', '.join(ends)}"
        curves.append((one.name, one.style % STYLES, drawn_lines, dots, about_ends))
    label = f"{title}. {'; '.join(curve[-1] for curve in curves)}."
    return chart | {"x": ticks_x, "y": ticks_y, "curves": curves, "label": label}


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers that enclose low..high."""
    if not high > low:
        room = abs(low) / 10 or 0.5
        low, high = low - room, high + room
    return list(MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high))


def _thin_out(points: Sequence[Point]) -> list[Point]:
    kept: set[Point] = set()
    size = math.ceil(len(points) / STRETCHES)
    for start in range(0, len(points), size):
        part = points[start : start + size]
        kept |= {min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])}
    return sorted(kept)


def _smooth(points: Sequence[Point]) -> list[Point]:
    """Compute the running mean over a thirtieth of a curve."""
    window_m = np.ones(2 * (len(points) // 60) + 1)
    y_n = np.array([y for _, y in points])
    mean_n = np.convolve(y_n, window_m, "same") / np.convolve(np.ones_like(y_n), window_m, "same")
    return list(zip([x for x, _ in points], mean_n.tolist(), strict=True))


def confusion_matrix(count_kk: Tensor, classes: Sequence[str]) -> dict[str, Any]:
    """Compute what a macro draws of a confusion matrix: shares of the true class, worst mistakes.

    A class without pixels has NaN.
    """
    count_kk = count_kk.double()
    share_kk = count_kk / count_kk.sum(1, keepdim=True)
    wrong_kk = share_kk.nan_to_num().fill_diagonal_(0)
    few = len(classes) <= MOST_CELLS
    order = wrong_kk.flatten().argsort(descending=True, stable=True)[: 10 if few else 25]
    pairs = [divmod(place, len(classes)) for place in order.tolist()]
    worst = [
        (classes[t], classes[p], percent(share_kk[t, p].item()), f"{count_kk[t, p]:,.0f}")
        for t, p in pairs
        if wrong_kk[t, p] > 0
    ]
    return {
        "classes": classes,
        "shares": share_kk.tolist() if few else None,
        "image": None if few else image_source(_as_image(share_kk.numpy())),
        "numbers": len(classes) <= MOST_NUMBERS,
        "worst": worst,
    }


def _as_image(share_kk: NDArray[np.float64]) -> Image:
    """Draw one square of a few pixels for each pair. Its opacity shows the share."""
    alpha_kk = (255 * np.nan_to_num(share_kk, nan=0.0) ** 0.6).astype(np.uint8)
    zoom = max(1, 900 // len(share_kk))
    alpha_nn1 = alpha_kk.repeat(zoom, 0).repeat(zoom, 1)[..., None]
    blue_nn3 = np.broadcast_to(np.array((46, 125, 214), np.uint8), (*alpha_nn1.shape[:2], 3))
    return np.concatenate([blue_nn3, alpha_nn1], axis=-1)


_TEMPLATES = Environment(
    loader=PackageLoader("reconet.report"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=lambda value: printable(value) if type(value) is str else value,  # markup is another
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["percent"] = percent
