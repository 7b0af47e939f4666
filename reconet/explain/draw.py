"""Draw figures about attention, as PNG bytes.

Every map has a colour scale of its own with its range over it. On one scale for all, most maps
would be one colour.
"""

import math
import warnings
from collections.abc import Sequence
from io import BytesIO
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from reconet.models.decompose import Decomposition
from reconet.system.readable import printable
from reconet.types import Colour, Image

HEAT, GATES, CHANGE = "magma", "viridis", "RdBu"
BLUE = "#0b62c4"
NARROWEST, WIDEST, HIGHEST = 2.1, 3.4, 3.2  # inches of a panel
LETTERS = 11.5  # of a title, in an inch
LEGEND_WIDTH, LEGEND_HEIGHT = 1.7, 0.24  # inches of a colour with its name
MOST_NAMES = 60  # classes whose names fit beside a heat map


class Panel(NamedTuple):
    """One image of a figure: RGB, or a map that is drawn on a colour scale of its own."""

    title: str
    content: Image | Tensor
    mark: tuple[float, float] | None = None  # a point in it: x, y as parts of width and height


class Content(NamedTuple):
    """What an explanation shows beside the image."""

    panels: Sequence[Sequence[Panel | None]]
    figures: dict[str, bytes]  # further ones, by file name
    values: dict[str, Any]  # for JSON
    shown: dict[str, Any]  # for the page
    finding: str  # a line for a terminal


def panel_grid(
    panels: Sequence[Sequence[Panel | None]],
    shape: tuple[int, ...],
    legend: Sequence[tuple[str, Colour]] = (),
) -> bytes:
    """Draw rows of panels, all of the proportions of `shape` (height, width), above a legend."""
    columns = max(len(row) for row in panels)
    # Titles need their width, however narrow the image is.
    wide = min(WIDEST, max(NARROWEST, NARROWEST * shape[1] / shape[0]))
    tall = min(HIGHEST, wide * shape[0] / shape[1]) + 0.75
    across = max(1, int(columns * wide / LEGEND_WIDTH))
    size = (columns * wide, len(panels) * tall + LEGEND_HEIGHT * math.ceil(len(legend) / across))
    figure = Figure(figsize=size, dpi=130, layout="constrained")
    all_axes = figure.subplots(len(panels), columns, squeeze=False)
    for axes_row, row in zip(all_axes, panels, strict=True):
        for axes, panel in zip(axes_row, [*row, *[None] * (columns - len(row))], strict=True):
            axes.set_axis_off()
            if panel is not None:
                _draw(axes, panel, shape, int(wide * LETTERS))
    if legend:
        patches = [
            Patch(
                facecolor="#{:02x}{:02x}{:02x}".format(*colour),
                edgecolor="#888888",
                label=_short(name),
            )
            for name, colour in legend
        ]
        figure.legend(
            handles=patches, loc="outside lower center", ncols=across, fontsize=9, frameon=False
        )
    return _png(figure)


def _draw(axes: Axes, panel: Panel, shape: tuple[int, ...], letters: int) -> None:
    content, title = panel.content, "\n".join(wrap(_plain(panel.title), letters))
    place = (0, shape[1], shape[0], 0)  # whatever its resolution, a map covers the image
    if isinstance(content, Tensor):
        low, high = value_range(content)
        axes.imshow(content.cpu().numpy(), cmap=HEAT, interpolation="bilinear", extent=place)
        title = f"{title}\n{low:.3g} to {high:.3g}"
    else:
        axes.imshow(content, extent=place)
        title = f"{title}\n"
    axes.set_title(title, fontsize=11)
    if panel.mark is not None:
        x, y = panel.mark[0] * shape[1], panel.mark[1] * shape[0]
        axes.plot(x, y, "+", color="white", markersize=11, markeredgewidth=4)
        axes.plot(x, y, "+", color="black", markersize=9, markeredgewidth=1.5)


def factors(parts: Decomposition) -> bytes:
    """Draw the factors of all ranks along each axis, one row for a rank.

    Of planes these are the means along rows and columns. Where ranks choose what they look at, the
    masks by which they gather follow.
    """
    plane_rhw = parts.factors.plane_brhw[0]
    plots = {
        "channels": parts.factors.channel_brc[0],
        "rows, top to bottom": plane_rhw.mean(2),
        "columns, left to right": plane_rhw.mean(1),
    }
    if parts.gather_brhw is not None:
        plots["rows: looks here"] = parts.gather_brhw[0].sum(2)
        plots["columns: looks here"] = parts.gather_brhw[0].sum(1)
    figure = Figure(figsize=(12, 3.4), dpi=110, layout="constrained")
    for axes, (name, factor_rn) in zip(figure.subplots(1, len(plots)), plots.items(), strict=True):
        image = axes.imshow(
            factor_rn.cpu().numpy(), cmap=GATES, vmin=0, aspect="auto", interpolation="nearest"
        )
        axes.set(title=name, ylabel="rank")
        figure.colorbar(image, ax=axes, location="bottom")
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return _png(figure)


def contributions(value_rk: Tensor, classes: Sequence[str]) -> bytes:
    """Plot what the score of each class (down) loses without each rank (across)."""
    value_kr = value_rk.T.cpu().numpy()
    most = float(np.abs(value_kr).max()) or 1.0
    figure = Figure(
        figsize=(12, 1.5 + min(12.0, 0.2 * len(classes))), dpi=110, layout="constrained"
    )
    axes = figure.subplots()
    image = axes.imshow(
        value_kr, cmap=CHANGE, vmin=-most, vmax=most, aspect="auto", interpolation="nearest"
    )
    axes.set(title="blue: the rank is for the class, red: against it", xlabel="rank")
    if len(classes) <= MOST_NAMES:
        axes.set_yticks(range(len(classes)), [_short(name) for name in classes], fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(image, ax=axes, pad=0.01)
    return _png(figure)


def bars(plots: Sequence[tuple[str, Tensor]]) -> bytes:
    """Plot gates of channels or the like, one plot below the other."""
    figure = Figure(figsize=(12, 2.3 * len(plots)), dpi=110, layout="constrained")
    all_axes = figure.subplots(len(plots), 1, squeeze=False)[:, 0]
    for axes, (name, value_n) in zip(all_axes, plots, strict=True):
        axes.bar(range(len(value_n)), value_n.cpu().numpy(), color=BLUE, width=1.0)
        axes.set(title=name, ylim=(0, 1), xlim=(-0.5, len(value_n) - 0.5))
        axes.grid(alpha=0.25)
    return _png(figure)


def value_range(map_hw: Tensor) -> tuple[float, float]:
    return map_hw.min().item(), map_hw.max().item()


def _short(name: str) -> str:
    return _plain(name if len(name) <= 24 else name[:23] + "…")


def _plain(text: str) -> str:
    return printable(text).replace("$", r"\$")  # a dollar sign would begin a formula


def _png(figure: Figure) -> bytes:
    buffer = BytesIO()
    with warnings.catch_warnings():  # letters that the font lacks are drawn as boxes
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(buffer, format="png")
    return buffer.getvalue()
