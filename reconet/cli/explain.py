"""reconet explain."""

from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.arguments import (
    DeviceOption,
    ImportOption,
    JsonOption,
    NetworkArgument,
    RootOption,
)
from reconet.cli.output import print_result, show_progress

ImageArgument = Annotated[
    str,
    typer.Argument(
        metavar="IMAGE", help="A file, or SPLIT:NUMBER or SPLIT:NAME of the network's dataset."
    ),
]
RanksOption = Annotated[
    str | None,
    typer.Option(
        "--ranks",
        metavar="N|I,J,...",
        help="How many ranks of largest lambda, by default 4. Or which: 3,17, or 7, (with a "
        "comma) for rank 7 alone.",
    ),
]
PointOption = Annotated[
    str | None,
    typer.Option(
        "--point",
        metavar="X,Y",
        help="For other contexts: where to look from, as fractions of width and height.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Folder to write, by default RUN/explain/<image>, or explain-<name>/<image>.",
    ),
]


def explain(
    network: NetworkArgument,
    image: ImageArgument,
    ranks: RanksOption = None,
    point: PointOption = None,
    out: OutOption = None,
    root: RootOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Show what a network looks at in an image.

    Writes attention maps, fragments, the effect of each rank, and explain.html with all of them.
    Networks with a context without ranks show the attention that they have.

    \b
    Examples:
      reconet explain runs/first val:3
      reconet explain runs/first street.jpg --ranks 2,5 --out street
      reconet explain runs/first street.jpg --ranks 7,
      reconet explain runs/danet street.jpg --point 0.25,0.6
    """
    from rich.text import Text

    from reconet.explain import PAGE, explain_image, parse_point

    at = None if point is None else parse_point(point)
    with show_progress("explain", "looking into the network ...") as progress:
        result = explain_image(
            network,
            image,
            ranks=ranks,
            point=at,
            out=out,
            root=root,
            device=device,
            progress=progress,
        )
    print_result(
        {"directory": str(result.directory)} | result.values,
        [*map(Text, result.findings), Text(str(result.directory / PAGE))],
        as_json,
    )
