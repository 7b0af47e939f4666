"""reconet report."""

from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.arguments import DeviceOption, ImportOption
from reconet.cli.output import print_line, show_progress

RunsArgument = Annotated[
    list[Path], typer.Argument(metavar="RUN", help="A run directory, or several to compare.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="By default RUN/report.html, or report.html here for several runs.",
    ),
]
ImagesOption = Annotated[
    int, typer.Option("--images", metavar="N", min=0, help="Validation images to show.")
]


def report(
    runs: RunsArgument,
    out: OutOption = None,
    images: ImagesOption = 8,
    device: DeviceOption = "auto",
    imports: ImportOption = None,
) -> None:
    """Write one HTML file about a run, or compare several runs.

    It shows curves, classes, confusion, images and the recipe. It loads nothing from elsewhere, so
    you can mail it or open it offline.

    \b
    Examples:
      reconet report runs/first
      reconet report runs/first --images 20 --out first.html
      reconet report runs/reconet runs/fcn --out compared.html
    """
    from reconet.report import write_report

    with show_progress("report", "reading ...") as progress:
        path = write_report(runs, out, images=images, device=device, progress=progress)
    if path is not None:  # of many processes, one writes the report
        print_line(str(path))
