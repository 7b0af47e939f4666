"""Draw the measured cores: time against memory."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from reconet.bench.modules import LOOP, ModuleBench
from reconet.system.files import write_atomic

ACCENT, SPATIAL, CHANNELS = "#c0392b", "#2c5d8f", "#9a9a9a"


def plot_module(results: Sequence[ModuleBench], title: str, path: Path) -> None:
    """Draw time against memory on logarithmic axes, with the name of each core beside its point."""
    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.set(xscale="log", yscale="log", title=title)
    axes.set_xlabel("forward + backward, ms")
    axes.set_ylabel("peak memory in training, maps")
    for r in results:
        point = (r.forward_backward_ms, r.forward_backward_peak_maps)
        axes.plot(*point, "o", color=_colour(r), markersize=9 if r.name == "reconet" else 6)
    for r, offset in zip(results, _label_offsets(results), strict=True):
        axes.annotate(
            r.name,
            (r.forward_backward_ms, r.forward_backward_peak_maps),
            xytext=(8, offset),
            textcoords="offset points",
            color=_colour(r),
            fontsize=9,
            fontweight="bold" if r.name == "reconet" else "normal",
            va="center",
        )
    for label, colour in (("sees positions", SPATIAL), ("sees channels only", CHANNELS)):
        axes.plot([], [], "o", color=colour, label=label)
    axes.legend(loc="upper left")
    slowest = max(r.forward_backward_ms for r in results)
    axes.set_xlim(right=3 * slowest)  # room for the names
    axes.margins(y=0.1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(True, which="both", alpha=0.2)
    form = path.suffix.removeprefix(".") or "png"
    write_atomic(path, lambda file: figure.savefig(file, format=form))


def _colour(result: ModuleBench) -> str:
    if result.name in {"reconet", LOOP}:
        return ACCENT
    return SPATIAL if result.spatial else CHANNELS


def _label_offsets(results: Sequence[ModuleBench]) -> list[float]:
    """Return how many points to shift each name, so that names of neighbours do not overlap."""
    step, near_x, near_y = 11.0, 2.5, 1.12  # points of text; ratios that count as near
    placed: list[tuple[float, float, float]] = []
    offsets = {}
    for r in sorted(results, key=lambda r: r.forward_backward_peak_maps):
        x, y = r.forward_backward_ms, r.forward_backward_peak_maps
        taken = {o for px, py, o in placed if max(x / px, px / x) < near_x and y / py < near_y}
        offset = next(o for o in (k * step for k in range(len(results) + 1)) if o not in taken)
        placed.append((x, y, offset))
        offsets[r.name] = offset
    return [offsets[r.name] for r in results]
