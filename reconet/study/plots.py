"""Draw the results of a study. Pure, except for `save_figures`."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reconet.study.results import Estimate, StudyResult, VariantResult
from reconet.study.trial import PARTS
from reconet.system.files import write_bytes
from reconet.system.readable import counted

ACCENT, OTHER, SOFT = "#c0392b", "#2c5d8f", "#9a9a9a"
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
    """Draw the score of each variant: its seeds, mean and interval."""
    lines = _score_lines(result)
    label = "mIoU %, dots: seeds, bars: 95 % interval of the mean"
    return _draw_estimates(result, lines, label)[0] if lines else None


def draw_differences(result: StudyResult) -> Figure | None:
    """Draw the difference of each variant to the baseline: its seeds, mean and interval."""
    lines = [
        (row, row.difference, list(row.difference_by_seed.values()), row.difference.excludes_zero())
        for row in result.rows
        if row.difference is not None
    ]
    label = (
        f"difference to {_escape(result.baseline)}, points of mIoU; dots: seeds, "
        "bars: 95 % interval, red: zero is outside"
    )
    if not lines:
        return None
    figure, axes = _draw_estimates(result, lines, label)
    axes.axvline(0, color=SOFT, linewidth=0.8)
    return figure


def draw_cost(result: StudyResult) -> Figure | None:
    """Draw the score of each variant, in red if it has ranks, and beside it its multiply-adds."""
    lines = [
        (row, mean, values, any(trial.spectrum for trial in row.trials))
        for row, mean, values, _ in _score_lines(result)
    ]
    if not lines:
        return None
    figure, _ = _draw_estimates(result, lines, "mIoU %, red: has ranks", panels=2)
    right = figure.axes[1]
    right.plot([row.trials[0].macs / 1e9 for row, *_ in lines], range(len(lines)), "s", color=OTHER)
    right.set_xlabel("MACs of one crop, G", fontsize=9)
    right.tick_params(labelleft=False)
    right.grid(True, alpha=0.3)
    return figure


Line = tuple[VariantResult, Estimate, Sequence[float], bool]  # the last: whether it stands out


def _score_lines(result: StudyResult) -> list[Line]:
    return [
        (row, row.score, [trial.figures["miou"] for trial in row.trials], False)
        for row in result.rows
        if row.score is not None
    ]


def _draw_estimates(
    result: StudyResult, lines: Sequence[Line], label: str, panels: int = 1
) -> tuple[Figure, Axes]:
    """Draw a line for each variant: values as dots, and their mean with its interval."""
    figure = Figure(figsize=(8, 1.3 + 0.36 * len(lines)), dpi=130, layout="constrained")
    axes: Axes = figure.subplots(1, panels, sharey=True, squeeze=False)[0, 0]
    for y, (row, mean, values, stands_out) in enumerate(lines):
        colour = ACCENT if stands_out else SOFT if row.variant == result.baseline else OTHER
        per_cent = [100 * value for value in values]
        axes.plot(per_cent, [y] * len(values), "o", color=colour, alpha=0.35, markersize=5)
        half = None if mean.half_width is None else 100 * mean.half_width
        axes.errorbar(100 * mean.mean, y, xerr=half, fmt="D", color=colour, capsize=4, markersize=6)
    axes.set_yticks(range(len(lines)), [_escape(row.variant) for row, *_ in lines])
    axes.invert_yaxis()
    axes.set_xlabel(label, fontsize=9)
    data = result.recipe.data
    splits = f"{data.name}, trained on {data.train_split}, scored on {data.val_split}"
    counts = sorted({len(row.trials) for row in result.rows})
    fewest = f"{counts[0]} to " if counts[0] < counts[-1] else ""
    title = f"{result.study.question}\n{splits}, {fewest}{counted(counts[-1], 'seed')}"
    axes.set_title(_escape(title), loc="left", fontsize=10)
    axes.grid(True, axis="x", alpha=0.3)
    return figure, axes


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


def _escape(text: str) -> str:
    """Escape dollar signs, which would start a formula."""
    return text.replace("$", r"\$")
