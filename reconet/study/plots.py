"""A study as images. Values in, a figure out; `save` is the only side effect."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reconet.study.result import Row, StudyResult
from reconet.system.files import write_bytes

ACCENT, OTHER, SOFT = "#c0392b", "#2c5d8f", "#9a9a9a"
PANELS = (
    ("attention_spread", "spread of A"),
    ("effective_rank", "effective rank of A"),
    ("lambda_spread", "spread of lambda"),
)
PARTS = ("lambda", "channel", "row", "column")


def figures(result: StudyResult) -> dict[str, Figure]:
    """Those that have something to show, by the name of their file."""
    makers: dict[str, Callable[[StudyResult], Figure | None]] = {
        "scores": scores,
        "training": training,
        "spectrum": spectra if result.study.name == "rank" else lambda _: None,
        "cost": cost if result.study.name == "contexts" else lambda _: None,
    }
    made = {name: make(result) for name, make in makers.items()}
    return {name: figure for name, figure in made.items() if figure is not None}


def png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    # Without a date and a version in it the same figure is the same file.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def save(result: StudyResult, directory: Path) -> list[Path]:
    paths = []
    for name, figure in figures(result).items():
        path, content = directory / f"{result.study.name}-{name}.png", png(figure)
        write_bytes(path, content)
        paths.append(path)
    return paths


def scores(result: StudyResult) -> Figure | None:
    """Each seed a dot, the mean with its interval; seeds of one variant stand close together."""
    rows = [row for row in result.rows if row.score is not None]
    if not rows:
        return None
    if result.study.name == "contexts":
        rows.sort(key=lambda row: row.score.mean if row.score else 0.0, reverse=True)
    figure = Figure(figsize=(8, 1.3 + 0.36 * len(rows)), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    for place, row in enumerate(rows):
        assert row.score is not None
        colour = SOFT if row.variant == result.study.baseline else OTHER
        values = [100 * cell.figures["miou"] for cell in row.cells]
        axes.plot(values, [place] * len(values), "o", color=colour, alpha=0.35, markersize=5)
        half = None if row.score.half_width is None else 100 * row.score.half_width
        mean = 100 * row.score.mean
        axes.errorbar(mean, place, xerr=half, fmt="D", color=colour, capsize=4, markersize=6)
        axes.axvline(mean, color=SOFT, linewidth=0.8, linestyle=":") if colour == SOFT else None
    axes.set_yticks(range(len(rows)), [_plain(row.variant) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("mIoU %, dots: seeds, bars: 95 % interval of the mean")
    axes.set_title(_plain(_title(result)), loc="left", fontsize=10)
    axes.grid(True, axis="x", alpha=0.3)
    return figure


def training(result: StudyResult) -> Figure | None:
    """Score and liveness over training, means over seeds."""
    rows = [row for row in result.rows if any(cell.trajectory for cell in row.cells)]
    if not rows:
        return None
    shown = [("miou", "mIoU %"), *(p for p in PANELS if any(_curve(r, p[0]) for r in rows))]
    if result.study.name == "contexts":
        shown = shown[:1]  # of all contexts one has an attention of this kind
    columns = min(2, len(shown))
    lines = -(-len(shown) // columns)
    figure = Figure(figsize=(4.6 * columns + 1.6, 3.0 * lines), dpi=130, layout="constrained")
    grid: Any = figure.subplots(lines, columns, squeeze=False)
    handles: dict[str, Any] = {}
    for axes, (name, label) in zip(grid.flat, shown, strict=False):
        for index, row in enumerate(rows):
            points = _curve(row, name)
            if points:
                handles[_plain(row.variant)] = _draw(
                    axes, points, index, 100 if name == "miou" else 1
                )
        axes.margins(y=0.1)
        axes.set(xlabel="step", title=label, ylim=(0, None))
        axes.grid(True, alpha=0.3)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=8)
    return figure


def spectra(result: StudyResult) -> Figure | None:
    """Effective rank of lambda and of the three unfoldings against r."""
    rows = [row for row in result.rows if any(cell.spectrum for cell in row.cells)]
    if not rows:
        return None
    figure = Figure(figsize=(10, 3.8), dpi=130, layout="constrained")
    left, right = figure.subplots(1, 2)
    for part in PARTS:
        effective = [_spectrum(row, "effective", part) for row in rows]
        beyond = [_spectrum(row, "for_99", part) for row in rows]
        ranks = [next(c.spectrum.rank for c in row.cells if c.spectrum) for row in rows]
        left.plot(ranks, effective, "o-", label=part, markersize=4)
        right.plot(ranks, beyond, "o-", label=part, markersize=4)
    for axes, title in ((left, "effective rank"), (right, "needed for 99 % of the energy")):
        axes.plot(ranks, ranks, color=SOFT, linestyle=":", label="r itself")
        axes.set(xscale="log", yscale="log", xlabel="r", title=title)
        axes.set_xticks(ranks, [str(rank) for rank in ranks], minor=False, fontsize=8)
        axes.minorticks_off()
        axes.grid(True, alpha=0.3)
    left.legend(fontsize=8)
    return figure


def cost(result: StudyResult) -> Figure | None:
    """Score against multiply-adds, each variant with its name."""
    rows = [row for row in result.rows if row.score is not None]
    if not rows:
        return None
    figure = Figure(figsize=(8, 5), dpi=130, layout="constrained")
    axes = figure.add_subplot()
    points = [(r.cells[0].macs / 1e9, 100 * r.score.mean) for r in rows if r.score is not None]
    for row, point, offset in zip(rows, points, _beside(points), strict=True):
        assert row.score is not None
        colour = ACCENT if row.variant == "reconet" else OTHER
        half = None if row.score.half_width is None else 100 * row.score.half_width
        axes.errorbar(*point, yerr=half, fmt="o", color=colour, alpha=0.8, elinewidth=0.6)
        axes.annotate(
            _plain(row.variant), point, xytext=(5, offset), textcoords="offset points", fontsize=8
        )
    axes.set(xlabel="MACs of one crop, G", ylabel="mIoU %")
    axes.margins(x=0.12)
    axes.grid(True, alpha=0.3)
    return figure


def _beside(points: Sequence[tuple[float, float]]) -> list[float]:
    """How far above each point its name goes, so that names of neighbours are not on each other."""
    wide, high = (max(p[axis] for p in points) - min(p[axis] for p in points) for axis in (0, 1))
    text = (0.14 * (wide or 1), 0.035 * (high or 1))  # of a name, in units of the axes
    placed: list[tuple[float, float]] = []
    offsets: list[float] = []
    for x, y in points:
        for offset in (4, -10, 14, -20, 24):
            at = (x, y + offset / 300 * (high or 1))  # the axes are some 300 points high
            if not any(abs(at[0] - a) < text[0] and abs(at[1] - b) < text[1] for a, b in placed):
                break
        placed.append(at)
        offsets.append(offset)
    return offsets


def _draw(axes: Axes, points: Sequence[tuple[float, float]], index: int, factor: float) -> Any:
    style = ("-", "--", ":")[index // 10 % 3]
    steps = [step for step, _ in points]
    values = [factor * value for _, value in points]
    return axes.plot(steps, values, style, color=f"C{index % 10}", marker=".", markersize=4)[0]


def _curve(row: Row, name: str) -> list[tuple[float, float]]:
    """Means over seeds at every step that all of them have."""
    by_seed = [
        {line["step"]: line[name] for line in cell.trajectory if name in line} for cell in row.cells
    ]
    if not by_seed:
        return []
    steps = sorted(set.intersection(*(set(lines) for lines in by_seed)))
    return [(step, sum(lines[step] for lines in by_seed) / len(by_seed)) for step in steps]


def _spectrum(row: Row, figure: str, part: str) -> float:
    values = [getattr(cell.spectrum, figure)[part] for cell in row.cells if cell.spectrum]
    return float(sum(values) / len(values))


def _title(result: StudyResult) -> str:
    data = result.recipe.data
    return f"{result.study.question}  {data.name} {data.val_split}, {len(result.seeds)} seeds"


def _plain(text: str) -> str:
    """A dollar sign would start a formula."""
    return text.replace("$", r"\$")
