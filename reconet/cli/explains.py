"""Verbs that look inside a network, and that make it smaller by what they see."""

from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.common import Device, Json, busy, report
from reconet.cli.runs import Run


def explain(
    run: Run,
    image: Annotated[
        str,
        typer.Argument(
            metavar="IMAGE", help="A file, or SPLIT:NUMBER or SPLIT:NAME of the run's dataset."
        ),
    ],
    ranks: Annotated[
        str,
        typer.Option(metavar="N|I,J,...", help="How many ranks of largest lambda, or which ranks."),
    ] = "4",
    point: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y",
            help="Of other contexts: where to look from, as parts of width and height.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="By default RUN/explain/<picture>.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Where the dataset is, if not where it was trained.")
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """What a network looks at in a picture: attention maps, fragments, what each rank does.

    Writes figures and explain.html, one file with all in it. Other contexts than reconet show the
    attention that they have.

    \b
    Examples:
      reconet explain runs/first val:3
      reconet explain runs/voc street.jpg --ranks 6 --out street
      reconet explain runs/voc val:2007_000033 --ranks 3,17,40
      reconet explain runs/danet street.jpg --point 0.25,0.6
    """
    from reconet.explain import PAGE, explain_picture, parse_point

    at = None if point is None else parse_point(point)
    with busy("looking ..."):
        result = explain_picture(
            run, image, ranks=ranks, point=at, out=out, root=root, device=device
        )
    report(
        {"directory": str(result.directory)} | result.values,
        [str(result.directory / PAGE)],
        as_json,
    )
