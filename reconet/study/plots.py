"""Draw the results of a study. Pure, except for `save_figures`."""

import io
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from reconet.study.results import Estimate, StudyResult, VariantResult
from reconet.study.trial import PARTS
from reconet.system.files import write_bytes
from reconet.system.readable import counted

ACCENT, OTHER, SOFT = "#c0392b", "#2c5d8f", "#9a9a9a"
PRINT = (430, 290)  # width and height of the plot of costs between its outer points, in points
MARGIN = 0.12  # of that width, on each side
CHARACTER = 4.6  # width of a letter of its names
PANELS = (
    ("miou", "mIoU %"),
    ("attention_spread", "spread of A"),
    ("effective_rank", "effective rank of A"),
    ("lambda_spread", "spread of lambda"),
)


def draw_figures(result: StudyResult) -> dict[str, Figure]:
    """Draw the figures that have something to show, by the name of their file."""
    drawings: dict[str, Callable[[StudyResult], Figure | None]] = {
        "scores": draw_scores,
        "differences": draw_differences,
        "training": draw_training,
    }
    if result.study.name == "rank":
        drawings["spectrum"] = draw_spectra
    if result.study.ranked:
        drawings["cost"] = draw_cost
    drawn = {name: draw(result) for name, draw in drawings.items()}
    return {name: figure for name, figure in drawn.items() if figure is not None}


def encode_png(figure: Figure) -> bytes:
    """Encode a figure as PNG. The same figure gives the same bytes."""
    buffer = io.BytesIO()
    # matplotlib would write its version into the file.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def save_figures(result: StudyResult, directory: Path) -> list[Path]:
    """Write all figures as PNG files."""
    figures = draw_figures(result)
    paths = [directory / f"{result.study.name}-{name}.png" for name in figures]
    for path, figure in zip(paths, figures.values(), strict=True):
        write_bytes(path, encode_png(figure))
    return paths


def draw_scores(result: StudyResult) -> Figure | None:
    """Draw each seed as a dot, and the mean of each variant with its interval."""
    lines = [
        (
            row.variant,
            [trial.figures["miou"] for trial in row.trials],
            row.score,
            SOFT if row.variant == result.baseline else OTHER,
        )
        for row in result.rows
        if row.score is not None
    ]
    label = "mIoU %, dots: seeds, bars: 95 % interval of the mean"
    start = next((100 * mean.mean for name, _, mean, _ in lines if name == result.baseline), None)
    return _draw_estimates(result, lines, label, start)


def draw_differences(result: StudyResult) -> Figure | None:
    """Draw the difference of each variant to the baseline: its seeds, mean and interval."""
    lines = [
        (
            row.variant,
            list(row.pairs.values()),
            row.difference,
            ACCENT if row.difference.excludes_zero() else OTHER,
        )
        for row in result.rows
        if row.difference is not None
    ]
    label = (
        f"difference to {_escape(result.baseline)}, points of mIoU; dots: seeds, "
        "bars: 95 % interval, red: zero is outside"
    )
    return _draw_estimates(result, lines, label, 0)


def _draw_estimates(
    result: StudyResult,
    lines: Sequence[tuple[str, Sequence[float], Estimate, str]],
    label: str,
    start: float | None,
) -> Figure | None:
    """Draw a line for each variant: values as dots, and an estimate in its colour with a bar."""
    if not lines:
        return None
    figure = Figure(figsize=(8, 1.3 + 0.36 * len(lines)), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    if start is not None:
        axes.axvline(start, color=SOFT, linewidth=0.8, linestyle=":")
    for y, (_, values, mean, colour) in enumerate(lines):
        per_cent = [100 * value for value in values]
        axes.plot(per_cent, [y] * len(values), "o", color=colour, alpha=0.35, markersize=5)
        style: dict[str, Any] = {"fmt": "D", "color": colour, "capsize": 4, "markersize": 6}
        axes.errorbar(100 * mean.mean, y, xerr=_half(mean), **style)
    axes.set_yticks(range(len(lines)), [_escape(name) for name, *_ in lines])
    axes.invert_yaxis()
    axes.set_xlabel(label, fontsize=9)
    data = result.recipe.data
    splits = f"{data.name}, trained on {data.train_split}, scored on {data.val_split}"
    counts = sorted({len(row.trials) for row in result.rows})
    fewest = f"{counts[0]} to " if counts[0] < counts[-1] else ""
    title = f"{result.study.question}\n{splits}, {fewest}{counted(counts[-1], 'seed')}"
    axes.set_title(_escape(title), loc="left", fontsize=10)
    axes.grid(True, axis="x", alpha=0.3)
    return figure


def draw_training(result: StudyResult) -> Figure | None:
    """Draw score and liveness over training, as means over seeds. One validation is no curve."""
    rows = [row for row in result.rows if any(len(trial.trajectory) > 1 for trial in row.trials)]
    # Few contexts of a ranked study have a low-rank tensor.
    shown = PANELS[:1] if result.study.ranked else PANELS
    panels = [panel for panel in shown if any(_curve(row, panel[0]) for row in rows)]
    if not panels:
        return None
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns + 1.6, 3.0 * lines), dpi=130, layout="constrained")
    grid: Any = figure.subplots(lines, columns, squeeze=False)
    handles: dict[str, Any] = {}
    for axes, (name, label) in zip(grid.flat, panels, strict=False):
        for index, row in enumerate(rows):
            if points := _curve(row, name):
                steps, values = zip(*points, strict=True)
                style = ("-", "--", ":")[index // 10 % 3]
                [handles[_escape(row.variant)]] = axes.plot(
                    steps, values, style, color=f"C{index % 10}", marker=".", markersize=4
                )
        axes.margins(y=0.1)
        axes.set(xlabel="step", title=label, ylim=(0, None))
        axes.grid(True, alpha=0.3)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=8)
    return figure


def _curve(row: VariantResult, name: str) -> list[tuple[float, float]]:
    """Return means over seeds at every step that all of them have."""
    by_seed = [
        {line["step"]: line[name] for line in trial.trajectory if name in line}
        for trial in row.trials
    ]
    steps = sorted(set.intersection(*map(set, by_seed))) if by_seed else []
    factor = 100 if name == "miou" else 1
    return [(step, factor * fmean(lines[step] for lines in by_seed)) for step in steps]


def draw_spectra(result: StudyResult) -> Figure | None:
    """Draw the effective rank of lambda and of the three unfoldings against r."""
    all_spectra = [[t.spectrum for t in row.trials if t.spectrum] for row in result.rows]
    rows = [spectra for spectra in all_spectra if spectra]
    if not rows:
        return None
    ranks = [spectra[0].rank for spectra in rows]
    figure = Figure(figsize=(10, 3.8), dpi=130, layout="constrained")
    left, right = figure.subplots(1, 2)
    for part in PARTS:
        effective = [fmean(one.effective[part] for one in spectra) for spectra in rows]
        for_99 = [fmean(one.for_99[part] for one in spectra) for spectra in rows]
        left.plot(ranks, effective, "o-", label=part, markersize=4)
        right.plot(ranks, for_99, "o-", label=part, markersize=4)
    for axes, title in ((left, "effective rank"), (right, "needed for 99 % of the energy")):
        axes.plot(ranks, ranks, color=SOFT, linestyle=":", label="r itself")
        axes.set(xscale="log", yscale="log", xlabel="r", title=title)
        axes.set_xticks(ranks, [str(rank) for rank in ranks], minor=False, fontsize=8)
        axes.minorticks_off()
        axes.grid(True, alpha=0.3)
    left.legend(fontsize=8)
    return figure


def draw_cost(result: StudyResult) -> Figure | None:
    """Draw scores against multiply-adds, each variant with its name, in red if it has ranks."""
    rows = [(row, row.score) for row in result.rows if row.score is not None]
    if not rows:
        return None
    figure = Figure(figsize=(8, 5), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    points = [(row.trials[0].macs / 1e9, 100 * score.mean) for row, score in rows]
    names = [_escape(row.variant) for row, _ in rows]
    for (row, score), point in zip(rows, points, strict=True):
        colour = ACCENT if any(trial.spectrum for trial in row.trials) else OTHER
        style: dict[str, Any] = {"fmt": "o", "color": colour, "alpha": 0.8, "elinewidth": 0.6}
        axes.errorbar(*point, yerr=_half(score), **style)
    for name, point, (x, y) in zip(names, points, place_names(names, points), strict=True):
        axes.annotate(
            name,
            point,
            xytext=(x, y),
            textcoords="offset points",
            fontsize=8,
            ha="left" if x > 0 else "right",
            va="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": SOFT},
        )
    axes.set(xlabel="MACs of one crop, G", ylabel="mIoU %")
    axes.margins(x=MARGIN)
    axes.grid(True, alpha=0.3)
    return figure


def place_names(
    names: Sequence[str], points: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return where each name goes, beside its point: in the frame, on no other name and no point.

    Offsets are in points of print. Nearer places are tried first, then those farther away.
    """
    xs, ys = (
        _in_print(values, length)
        for values, length in zip(zip(*points, strict=True), PRINT, strict=True)
    )
    taken = [(x - 3, x + 3, y - 3, y + 3) for x, y in zip(xs, ys, strict=True)]
    offsets = []
    for name, x, y in zip(names, xs, ys, strict=True):
        wide = CHARACTER * len(name)
        for up, right in product((0, 11, -11, 22, -22, 33, -33), (1, -1)):
            near, far = x + 7 * right, x + (7 + wide) * right
            left, end, low, high = min(near, far), max(near, far), y + up - 5, y + up + 5
            in_frame = left >= -MARGIN * PRINT[0] and end <= (1 + MARGIN) * PRINT[0]
            if in_frame and not any(
                left < b and a < end and low < d and c < high for a, b, c, d in taken
            ):
                break
        taken.append((left, end, low, high))
        offsets.append((7.0 * right, float(up)))
    return offsets


def _in_print(values: Sequence[float], length: float) -> list[float]:
    """Return values along an axis in points of print, from 0 to `length`."""
    extent = (max(values) - min(values)) or 1
    return [(value - min(values)) / extent * length for value in values]


def _half(value: Estimate) -> float | None:
    return None if value.half_width is None else 100 * value.half_width


def _escape(text: str) -> str:
    """Escape dollar signs, which would start a formula."""
    return text.replace("$", r"\$")
