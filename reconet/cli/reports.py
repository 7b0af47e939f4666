"""The verb that shows results."""

from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.common import Device
from reconet.cli.output import busy


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run directories; several to compare.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="By default RUN/report.html; of several runs, report.html here."
        ),
    ] = None,
    images: Annotated[int, typer.Option(min=0, help="Validation images to show.")] = 8,
    device: Device = "auto",
) -> None:
    """One HTML file about a run, or several compared: curves, classes, confusion, images, recipe.

    All is in the file, and it asks nobody for anything: mail it, or open it without a network.

    \b
    Examples:
      reconet report runs/first
      reconet report runs/reconet runs/fcn --out compared.html --images 20
    """
    from reconet.report import write_report

    with busy("reading ...") as tell:
        path = write_report(runs, out, images=images, device=device, tell=tell)
    if path is not None:  # else another process of this report says so
        print(path)
