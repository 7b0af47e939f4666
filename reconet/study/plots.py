"""Draw the results of a study. Pure, except for `save_figures`."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reconet.study.result import StudyResult, VariantResult
from reconet.study.spectrum import PARTS
from reconet.system.files import write_bytes
from reconet.system.readable import counted

ACCENT, OTHER, SOFT = "#c0392b", "#2c5d8f", "#9a9a9a"
PRINT = (430, 290)  # width and height of the plot of costs between its outer points, in points
MARGIN = 0.12  # of that width, on each side
CHARACTER = 4.6  # width of a letter of its names
PANELS = (
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
    paths = []
    for name, figure in draw_figures(result).items():
        path = directory / f"{result.study.name}-{name}.png"
        write_bytes(path, encode_png(figure))
        paths.append(path)
    return paths


def draw_scores(result: StudyResult) -> Figure | None:
    """Draw each seed as a dot, and the mean of each variant with its interval."""
    rows = [row for row in result.rows if row.score is not None]
    if not rows:
        return None
    figure = Figure(figsize=(8, 1.3 + 0.36 * len(rows)), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    for line, row in enumerate(rows):
        assert row.score is not None
        is_baseline = row.variant == result.baseline
        colour = SOFT if is_baseline else OTHER
        values = [100 * trial.figures["miou"] for trial in row.trials]
        axes.plot(values, [line] * len(values), "o", color=colour, alpha=0.35, markersize=5)
        half = None if row.score.half_width is None else 100 * row.score.half_width
        mean = 100 * row.score.mean
        axes.errorbar(mean, line, xerr=half, fmt="D", color=colour, capsize=4, markersize=6)
        if is_baseline:
            axes.axvline(mean, color=SOFT, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(rows)), [_plain(row.variant) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("mIoU %, dots: seeds, bars: 95 % interval of the mean")
    axes.set_title(_plain(_title(result)), loc="left", fontsize=10)
    axes.grid(True, axis="x", alpha=0.3)
    return figure


def draw_differences(result: StudyResult) -> Figure | None:
    """Draw the difference of each variant to the baseline: its seeds, mean and interval."""
    rows = [row for row in result.rows if row.difference is not None]
    if not rows:
        return None
    figure = Figure(figsize=(8, 1.3 + 0.36 * len(rows)), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    axes.axvline(0, color=SOFT, linewidth=0.8)
    for line, row in enumerate(rows):
        assert row.difference is not None
        colour = ACCENT if row.difference.excludes_zero() else OTHER
        values = [100 * value for value in row.pairs.values()]
        axes.plot(values, [line] * len(values), "o", color=colour, alpha=0.35, markersize=5)
        half = row.difference.half_width
        axes.errorbar(
            100 * row.difference.mean,
            line,
            xerr=None if half is None else 100 * half,
            fmt="D",
            color=colour,
            capsize=4,
            markersize=6,
        )
    axes.set_yticks(range(len(rows)), [_plain(row.variant) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(
        f"difference to {_plain(result.baseline)}, points of mIoU; dots: seeds, "
        "bars: 95 % interval, red: zero is outside",
        fontsize=9,
    )
    axes.set_title(_plain(_title(result)), loc="left", fontsize=10)
    axes.grid(True, axis="x", alpha=0.3)
    return figure


def draw_training(result: StudyResult) -> Figure | None:
    """Draw score and liveness over training, as means over seeds. One validation is no curve."""
    rows = [row for row in result.rows if any(len(trial.trajectory) > 1 for trial in row.trials)]
    if not rows:
        return None
    panels = [("miou", "mIoU %"), *(p for p in PANELS if any(_curve(r, p[0]) for r in rows))]
    if result.study.ranked:
        panels = panels[:1]  # few of the contexts have a low-rank tensor
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns + 1.6, 3.0 * lines), dpi=130, layout="constrained")
    grid: Any = figure.subplots(lines, columns, squeeze=False)
    handles: dict[str, Any] = {}
    for axes, (name, label) in zip(grid.flat, panels, strict=False):
        for index, row in enumerate(rows):
            points = _curve(row, name)
            if points:
                handles[_plain(row.variant)] = _draw(
                    axes, points, index, 100 if name == "miou" else 1
                )
        axes.margins(y=0.1)
        axes.set(xlabel="step", title=label, ylim=(0, None))
        axes.grid(True, alpha=0.3)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=8)
    return figure


def draw_spectra(result: StudyResult) -> Figure | None:
    """Draw the effective rank of lambda and of the three unfoldings against r."""
    rows = [row for row in result.rows if any(trial.spectrum for trial in row.trials)]
    if not rows:
        return None
    figure = Figure(figsize=(10, 3.8), dpi=130, layout="constrained")
    left, right = figure.subplots(1, 2)
    for part in PARTS:
        effective = [_mean_spectrum(row, "effective", part) for row in rows]
        for_99 = [_mean_spectrum(row, "for_99", part) for row in rows]
        ranks = [next(t.spectrum.rank for t in row.trials if t.spectrum) for row in rows]
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
    rows = [row for row in result.rows if row.score is not None]
    if not rows:
        return None
    figure = Figure(figsize=(8, 5), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    points = [(r.trials[0].macs / 1e9, 100 * r.score.mean) for r in rows if r.score is not None]
    names = [_plain(row.variant) for row in rows]
    for row, point in zip(rows, points, strict=True):
        assert row.score is not None
        colour = ACCENT if any(trial.spectrum for trial in row.trials) else OTHER
        half = None if row.score.half_width is None else 100 * row.score.half_width
        axes.errorbar(*point, yerr=half, fmt="o", color=colour, alpha=0.8, elinewidth=0.6)
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
    low, scale = zip(*(_print_scale(axis, points) for axis in (0, 1)), strict=True)
    dots = [((x - low[0]) * scale[0], (y - low[1]) * scale[1]) for x, y in points]
    taken = [(x - 3, x + 3, y - 3, y + 3) for x, y in dots]
    offsets = []
    for name, (x, y) in zip(names, dots, strict=True):
        wide = CHARACTER * len(name)
        for right, up in [(side, up) for up in (0, 11, -11, 22, -22, 33, -33) for side in (1, -1)]:
            edge = x + 7 * right
            box = (
                min(edge, edge + wide * right),
                max(edge, edge + wide * right),
                y + up - 5,
                y + up + 5,
            )
            if _inside(box) and not any(_overlap(box, other) for other in taken):
                break
        taken.append(box)
        offsets.append((7.0 * right, float(up)))
    return offsets


def _print_scale(axis: int, points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the lowest value along an axis of the plot, and points of print per unit."""
    values = [point[axis] for point in points]
    return min(values), PRINT[axis] / ((max(values) - min(values)) or 1)


def _inside(box: Sequence[float]) -> bool:
    return box[0] >= -MARGIN * PRINT[0] and box[1] <= (1 + MARGIN) * PRINT[0]


def _overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _draw(axes: Axes, points: Sequence[tuple[float, float]], index: int, factor: float) -> Any:
    style = ("-", "--", ":")[index // 10 % 3]
    steps = [step for step, _ in points]
    values = [factor * value for _, value in points]
    return axes.plot(steps, values, style, color=f"C{index % 10}", marker=".", markersize=4)[0]


def _curve(row: VariantResult, name: str) -> list[tuple[float, float]]:
    """Return means over seeds at every step that all of them have."""
    by_seed = [
        {line["step"]: line[name] for line in trial.trajectory if name in line}
        for trial in row.trials
    ]
    if not by_seed:
        return []
    steps = sorted(set.intersection(*(set(lines) for lines in by_seed)))
    return [(step, sum(lines[step] for lines in by_seed) / len(by_seed)) for step in steps]


def _mean_spectrum(row: VariantResult, figure: str, part: str) -> float:
    values = [getattr(trial.spectrum, figure)[part] for trial in row.trials if trial.spectrum]
    return float(sum(values) / len(values))


def _title(result: StudyResult) -> str:
    data = result.recipe.data
    splits = f"{data.name}, trained on {data.train_split}, scored on {data.val_split}"
    counts = sorted({len(row.trials) for row in result.rows})
    fewest = f"{counts[0]} to " if counts[0] < counts[-1] else ""
    return f"{result.study.question}\n{splits}, {fewest}{counted(counts[-1], 'seed')}"


def _plain(text: str) -> str:
    """Escape dollar signs, which would start a formula."""
    return text.replace("$", r"\$")
