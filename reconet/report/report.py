"""Write the report of one run, or of several compared."""

import math
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from reconet.data.images.draw import VOID_COLOUR
from reconet.errors import RecipeError
from reconet.evaluation.benchmarks import score_labels
from reconet.recipes.schema import list_settings
from reconet.report.html import Series, confusion_matrix, html_page, line_chart
from reconet.report.run_results import RunResults, read_run, setting_text
from reconet.system.distributed import join_processes
from reconet.system.files import check_output_file, write_text
from reconet.system.hardware import environment
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.system.reading import TEXT_BYTES, open_file
from reconet.system.run_files import RECIPE, REPORT

MACHINE = ("processes", "reconet", "torch", "processor", "GPU", "system")  # keys of a start


class Curve(NamedTuple):
    """A value of the log that is drawn as a curve."""

    title: str
    kind: str  # of the line in the log
    value: str
    about: str = ""
    low: float | None = 0.0  # where the axis begins; None: near the lowest value
    percent: bool = False


CURVES = (
    Curve("Loss", "train", "loss", "main and auxiliary, mean since the last line"),
    Curve("mIoU, %", "val", "miou", "on the validation split", low=None, percent=True),
    Curve("Pixel accuracy, %", "val", "pixel_accuracy", "the same", low=None, percent=True),
    Curve("Learning rate", "train", "lr", "the base rate"),
    Curve(
        "Spread of the attention",
        "val",
        "attention_spread",
        "standard deviation over mean; 0 is the same everywhere, and does nothing",
    ),
    Curve(
        "Effective rank of the attention",
        "val",
        "effective_rank",
        "1 is one pattern for all channels",
        low=1.0,
    ),
    Curve(
        "Spread of lambda",
        "val",
        "lambda_spread",
        "standard deviation over mean; 0 weighs all ranks alike",
    ),
    Curve("Images a second", "train", "images_per_second", "in training"),
)


def write_report(
    runs: Sequence[Path],
    out: Path | None = None,
    *,
    images: int = 8,
    device: str = "auto",
    progress: Progress = SILENT,
) -> Path | None:
    """Report on one run, or compare several. With several processes only the first one writes."""
    if not runs:
        raise RecipeError("a report needs a run directory.")
    names, path = run_names(runs), report_path(runs, out)
    check_output_file(path, is_report)
    with join_processes(device) as processes:
        progress = progress if processes.is_first else SILENT
        results = [
            read_run(run, name, processes, images=images, progress=progress)
            for run, name in zip(runs, names, strict=True)
        ]
        if not processes.is_first:
            return None
        for result in results:
            for reason in result.missing:
                progress.note(f"{result.name}: {reason}")
        options = [*([] if out is None else ["--out", str(out)]), "--images", str(images)]
        page = html_page(
            "report.html",
            kind="report",
            title=names[0] if len(names) == 1 else f"{len(names)} runs compared",
            runs=results,
            charts=_charts(results),
            **(_comparison(results) if len(results) > 1 else {}),
            made=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
            command=shlex.join(["reconet", "report", *map(str, runs), *options]),
            environment=environment(processes.device),
            trainings=[
                shlex.join(["reconet", "train", f"{run}/{RECIPE}", "--out", f"{run}-again"])
                for run in runs
                if run.is_dir()
            ],
            start_head=("run", "from step", *MACHINE),
            starts=[
                (run.name, *(str(start.get(key, "-")) for key in ("step", *MACHINE)))
                for run in results
                for start in run.starts
            ],
            void_colour=VOID_COLOUR,
            confusion_matrix=confusion_matrix,
            counted=counted,
            png="data:image/png;base64,",
        )
        write_text(path, page)
        return path


def report_path(runs: Sequence[Path], out: Path | None) -> Path:
    """Return where the report goes. A folder gets a report.html."""
    if out is None and len(runs) > 1:
        return Path(REPORT)
    path = out or (runs[0] if runs[0].is_dir() else runs[0].parent)
    return path / REPORT if path.is_dir() else path


def is_report(path: Path) -> bool:
    """Return whether a file is a report, which a new one may replace."""
    with open_file(path, limit=TEXT_BYTES) as file:
        return b"reconet report</title>" in file.read(4096)


def run_names(runs: Sequence[Path]) -> list[str]:
    """Name each run by the shortest end of its path that no other run has."""
    paths = [(run.parent if run.is_file() else run).resolve() for run in runs]
    if len(set(paths)) < len(paths):
        raise RecipeError("the same run is named twice.")
    for length in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


def _charts(runs: Sequence[RunResults]) -> list[dict[str, Any]]:
    """Return one chart for each value that any run has logged, with all runs in it."""
    charts = []
    for curve in CURVES:
        factor, unit = (100.0, " %") if curve.percent else (1.0, "")
        series = [
            Series(run.name, run.curve(curve.kind, curve.value, factor), number)
            for number, run in enumerate(runs)
        ]
        charts.append(line_chart(curve.title, series, about=curve.about, unit=unit, low=curve.low))
    return [chart for chart in charts if chart is not None]


def _comparison(runs: Sequence[RunResults]) -> dict[str, Any]:
    """Return what a page about several runs shows beside what each of them has."""
    scored = [run for run in runs if run.score is not None]
    why_not = _why_not_comparable(scored)
    labels = score_labels()
    keys = [key for key in labels if any(run.score and key in run.score.figures for run in runs)]
    settings = zip(*(list_settings(run.recipe) for run in runs), strict=True)
    texts = [(same[0][0], *(setting_text(value) for _, value, _ in same)) for same in settings]
    return {
        "protocols": sorted({run.score.protocol for run in runs if run.score}),
        "incomparable_scores": len({run.scored_by for run in scored}) > 1,
        "score_head": ["run", "scored on", *(labels[key] for key in keys), "best step", "steps"],
        "scores": [(run, list(_marked_scores(run, keys, runs))) for run in runs],
        "why_not": why_not,
        "side_by_side": scored if why_not is None and len(scored) > 1 else [],
        "differences": [row for row in texts if len(set(row[1:])) > 1],
    }


def _marked_scores(
    run: RunResults, keys: Sequence[str], runs: Sequence[RunResults]
) -> Iterator[tuple[float, bool]]:
    """Yield each score, and whether it is the best of several that can be compared with it."""
    figures = run.score.figures if run.score else {}
    rivals = [
        other.score.figures for other in runs if other.score and other.scored_by == run.scored_by
    ]
    for key in keys:
        value = figures.get(key, math.nan)
        yield value, len(rivals) > 1 and value >= max(other.get(key, -1.0) for other in rivals)


def _why_not_comparable(runs: Sequence[RunResults]) -> str | None:
    """Say why classes and images of these runs cannot stand side by side, if they cannot."""
    for first, other in pairwise(runs):
        both = f"{first.name} and {other.name}"
        if first.classes != other.classes:
            return f"{both} know different classes: each has its own below."
        first_images, other_images = ([one.name for one in run.images] for run in (first, other))
        if first_images != other_images or first.split != other.split:
            return f"{both} were scored on different images: each has its own below."
    return None
