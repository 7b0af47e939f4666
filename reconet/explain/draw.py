"""Draw figures about attention, as PNG bytes.

Every map has a colour scale of its own with its range over it. On one scale for all, most maps
would be one colour.
"""

import math
import warnings
from collections.abc import Sequence
from io import BytesIO
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from torch import Tensor

from reconet.explain.ranks import SHARES, RankAnalysis, value_range
from reconet.system.readable import printable
from reconet.types import Colour, Image

HEAT, GATES, CHANGE = "magma", "viridis", "RdBu"
COLOURS = ("#0b62c4", "#c8560a", "#12805c", "#9b2f8a", "#80650a", "#00768f", "#b3261e", "#5c5c66")
MOST_LINES = 8  # curves of one plot
LEGEND_WIDTH, LEGEND_HEIGHT = 1.7, 0.24  # inches of a colour with its name
MOST_NAMES = 60  # classes whose names fit beside a heat map


class Panel(NamedTuple):
    """One image of a figure: RGB, or a map that is drawn on a colour scale of its own."""

    title: str
    content: Image | Tensor
    mark: tuple[float, float] | None = None  # a point in it: x, y as parts of width and height


def panel_grid(
    panels: Sequence[Sequence[Panel | None]],
    shape: tuple[int, int],
    legend: Sequence[tuple[str, Colour]] = (),
) -> bytes:
    """Draw rows of panels, all of the proportions of `shape` (height, width), above a legend."""
    columns = max(len(row) for row in panels)
    wide = 2.1 * min(1.6, max(0.6, shape[1] / shape[0]))
    tall = wide * shape[0] / shape[1] + 0.75
    across = max(1, int(columns * wide / LEGEND_WIDTH))
    size = (columns * wide, len(panels) * tall + LEGEND_HEIGHT * math.ceil(len(legend) / across))
    figure = Figure(figsize=size, dpi=130, layout="constrained")
    all_axes = figure.subplots(len(panels), columns, squeeze=False)
    for axes_row, row in zip(all_axes, panels, strict=True):
        for axes, panel in zip(axes_row, [*row, *[None] * (columns - len(row))], strict=True):
            axes.set_axis_off()
            if panel is not None:
                _draw(axes, panel, shape)
    if legend:
        patches = [_patch(name, colour) for name, colour in legend]
        figure.legend(
            handles=patches, loc="outside lower center", ncols=across, fontsize=9, frameon=False
        )
    return _png(figure)


def _patch(name: str, colour: Colour) -> Patch:
    face = (colour[0] / 255, colour[1] / 255, colour[2] / 255)
    return Patch(facecolor=face, edgecolor="#888888", label=_short(name))


def _integer_ticks(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _draw(axes: Axes, panel: Panel, shape: tuple[int, int]) -> None:
    title, content = panel.title, panel.content
    place = (0, shape[1], shape[0], 0)  # whatever its resolution, a map covers the image
    if isinstance(content, Tensor):
        low, high = value_range(content)
        values = content.cpu().numpy()
        axes.imshow(values, cmap=HEAT, interpolation="bilinear", extent=place)
        title = f"{title}\n{low:.3g} to {high:.3g}"
    else:
        axes.imshow(content, extent=place)
        title = f"{title}\n"
    axes.set_title(title, fontsize=11)
    if panel.mark is not None:
        x, y = panel.mark[0] * shape[1], panel.mark[1] * shape[0]
        axes.plot(x, y, "+", color="white", markersize=11, markeredgewidth=4)
        axes.plot(x, y, "+", color="black", markersize=9, markeredgewidth=1.5)


def fragments(analysis: RankAnalysis) -> bytes:
    """Plot the factors along each axis: of the shown ranks as curves, of all ranks as rows."""
    plots = _factor_plots(analysis)
    figure = Figure(figsize=(4 * len(plots), 6), dpi=110, layout="constrained")
    all_axes = figure.subplots(2, len(plots), height_ratios=(1, 1.3))
    shared = all(top == 1 for *_, top in plots)
    for column, (name, factor_rn, top) in enumerate(plots):
        above, below = all_axes[0, column], all_axes[1, column]
        # Channels have no order of their own: sorted, their curves can be told apart.
        curve_rn = -np.sort(-factor_rn, axis=1) if column == 0 else factor_rn
        for number, one in enumerate(analysis.shown[:MOST_LINES]):
            above.plot(curve_rn[one.rank], color=COLOURS[number], lw=1.2, label=f"rank {one.rank}")
        above.set(title=name, ylim=(0, top), xlim=(0, max(1, factor_rn.shape[1] - 1)))
        above.grid(alpha=0.25)
        image = below.imshow(
            factor_rn, cmap=GATES, vmin=0, vmax=top, aspect="auto", interpolation="nearest"
        )
        if not shared:
            figure.colorbar(image, ax=below, location="bottom")
        below.set_ylabel("rank")
        below.yaxis.set_major_locator(MaxNLocator(integer=True))
        for axes in (above, below):
            _integer_ticks(axes)
    all_axes[0, 0].legend(fontsize=7, ncols=2)
    if shared:
        figure.colorbar(image, ax=all_axes[1, :], label="gate, 0 to 1", shrink=0.9)
    return _png(figure)


def _factor_plots(analysis: RankAnalysis) -> list[tuple[str, NDArray[np.float32], float]]:
    """Return title, factor_rn and largest value of each axis. Gates go to 1, others to their own.

    Of planes these are the means along rows and columns. Where ranks choose what they look at, the
    masks by which they gather follow.
    """
    plane_rhw = analysis.factors.plane_brhw[0].cpu().numpy()
    factors = [analysis.factors.channel_brc[0].cpu().numpy(), plane_rhw.mean(2), plane_rhw.mean(1)]
    names = list(analysis.words.curves)
    tops = [1.0 if factor_rn.max() <= 1 else float(factor_rn.max()) for factor_rn in factors]
    if analysis.gather_brhw is not None:
        mask_rhw = analysis.gather_brhw[0].cpu().numpy()
        factors += [mask_rhw.sum(2), mask_rhw.sum(1)]
        names += ["rows: gather (sums to 1)", "columns: gather (sums to 1)"]
        tops += [1.1 * float(factor_rn.max()) for factor_rn in factors[-2:]]
    return list(zip(names, factors, tops, strict=True))


def spectrum(analysis: RankAnalysis) -> bytes:
    """Plot lambda, what the ranks carry together, and the singular values of the tensor."""
    figure = Figure(figsize=(12, 3.4), dpi=110, layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    weight_r = analysis.factors.weight_r.sort(descending=True).values.cpu().numpy()
    rank = len(weight_r)
    _deviation(left, weight_r)
    _cumulative(middle, analysis)
    singular_r = (analysis.singular_r / analysis.singular_r[0]).cpu().numpy()
    shown_r = np.maximum(singular_r, 1e-8)
    right.semilogy(range(1, rank + 1), shown_r, ".-", color=COLOURS[0], ms=4, lw=0.8)
    right.set(title=f"singular values of {analysis.words.symbol} over the first", xlabel="number")
    right.grid(alpha=0.25)
    for axes in (left, middle, right):
        _integer_ticks(axes)
    return _png(figure)


def _deviation(axes: Axes, weight_r: NDArray[np.float32]) -> None:
    # Not from zero: lambda differs little between ranks, and all bars would look equal.
    mean = weight_r.mean()
    # In parts of the mean size: weights of both signs may have a mean of zero.
    percent_r = 100 * (weight_r - mean) / np.abs(weight_r).mean()
    axes.bar(range(1, len(weight_r) + 1), percent_r, color=COLOURS[0], width=0.85)
    axes.axhline(0, color=COLOURS[1], lw=1, label=f"mean {mean:.4g}")
    most = 1.15 * max(float(np.abs(percent_r).max()), 1e-3)
    title = "lambda, largest first: above or below its mean, %"
    axes.set(title=title, xlabel="ranks", ylim=(-most, most))
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)


def _cumulative(axes: Axes, analysis: RankAnalysis) -> None:
    sizes = {"sum of norms": analysis.norm_r, "sum of squares": analysis.norm_r.square()}
    for number, (name, size_r) in enumerate(sizes.items()):
        total_r = size_r.sort(descending=True).values.cumsum(0).cpu().numpy()
        percent = np.concatenate([[0], 100 * total_r / total_r[-1]])
        axes.plot(percent, color=COLOURS[number], ls="-" if number == 0 else "--", label=name)
    for share in SHARES:
        axes.axhline(100 * share, color="gray", lw=0.7, ls=":")
    axes.set(title=f"{analysis.words.name} carried by the largest ranks, %")
    axes.set(xlabel="ranks", ylim=(0, 105))
    axes.legend(fontsize=8, loc="lower right")
    axes.grid(alpha=0.25)


def contributions(value_rk: Tensor, classes: Sequence[str]) -> bytes:
    """Plot what the score of each class (down) loses without each rank (across).

    Ranks often do much the same, so a second plot shows how each differs from the mean of all.
    """
    value_kr = value_rk.T.cpu().numpy()
    tall = 1.0 + min(12.0, 0.2 * len(classes))
    figure = Figure(figsize=(12, 2 * tall), dpi=110, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    about = "blue is for the class, red against"
    _signed(above, value_kr, classes, f"change of the class's mean score: {about}")
    rest_kr = value_kr - value_kr.mean(1, keepdims=True)
    _signed(below, rest_kr, classes, "the same, less the mean of all ranks")
    below.set_xlabel("rank")
    _integer_ticks(below)
    return _png(figure)


def _signed(axes: Axes, value_kr: NDArray[np.float32], classes: Sequence[str], title: str) -> None:
    most = float(np.abs(value_kr).max()) or 1.0
    image = axes.imshow(
        value_kr, cmap=CHANGE, vmin=-most, vmax=most, aspect="auto", interpolation="nearest"
    )
    axes.set_title(title)
    if len(classes) <= MOST_NAMES:
        axes.set_yticks(range(len(classes)), [_short(name) for name in classes], fontsize=8)
    axes.figure.colorbar(image, ax=axes, pad=0.01)


def bars(plots: Sequence[tuple[str, NDArray[np.float32]]]) -> bytes:
    """Plot gates of channels or the like, one plot below the other."""
    figure = Figure(figsize=(12, 2.3 * len(plots)), dpi=110, layout="constrained")
    all_axes = figure.subplots(len(plots), 1, squeeze=False)[:, 0]
    for axes, (name, value_n) in zip(all_axes, plots, strict=True):
        axes.bar(range(len(value_n)), value_n, color=COLOURS[0], width=1.0)
        axes.set(title=name, ylim=(0, 1), xlim=(-0.5, len(value_n) - 0.5))
        axes.grid(alpha=0.25)
    return _png(figure)


def _short(name: str) -> str:
    # A dollar sign would begin a formula.
    name = name if len(name) <= 24 else name[:23] + "…"
    return printable(name).replace("$", r"\$")


def _png(figure: Figure) -> bytes:
    buffer = BytesIO()
    with warnings.catch_warnings():  # letters that the font lacks are drawn as boxes
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(buffer, format="png")
    return buffer.getvalue()
