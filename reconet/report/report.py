"""Write the report of one run, or of several compared."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from reconet.errors import RecipeError
from reconet.report.contents import compose_page
from reconet.report.html import Markup, join, section, table, tag
from reconet.report.run_results import read_run
from reconet.system.distributed import Processes, join_processes
from reconet.system.files import check_output_file, write_text
from reconet.system.hardware import environment
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import TEXT_BYTES, open_file
from reconet.system.run_files import RECIPE, REPORT


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
        write_text(path, compose_page(results, _environment(runs, out, images, processes)))
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


def _environment(
    runs: Sequence[Path], out: Path | None, images: int, processes: Processes
) -> Markup:
    """Tell how to make this report, and how to repeat the training."""
    options = [*([] if out is None else ["--out", str(out)]), "--images", str(images)]
    command = shlex.join(["reconet", "report", *map(str, runs), *options])
    trainings = [
        shlex.join(["reconet", "train", f"{run}/{RECIPE}", "--out", f"{run}-again"])
        for run in runs
        if run.is_dir()
    ]
    return section(
        "Environment",
        tag("p", f"This report was made on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by"),
        tag("code", command, class_="command"),
        table(("what", "version"), environment(processes.device)),
        tag("p", "To repeat the training:"),
        join(tag("code", line, class_="command") for line in trainings),
    )
