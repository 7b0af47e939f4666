"""reconet report."""

from pathlib import Path

from reconet.cli.arguments import DEVICE, IMPORT, argument, option
from reconet.cli.output import print_line, show_progress


def report(
    runs: list[Path] = argument("RUN", "A run directory, or several to compare."),
    out: Path | None = option(
        "--out FILE", "By default RUN/report.html, or report.html here for several runs."
    ),
    images: int = option("--images N", "Validation images to show.", 8, min=0),
    device: str = DEVICE,
    imports: list[str] | None = IMPORT,
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
