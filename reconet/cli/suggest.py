"""reconet suggest."""

from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.arguments import (
    AnyNetworkArgument,
    DataOption,
    DeviceOption,
    ImportOption,
    JsonOption,
    RootOption,
    SetOption,
    check_settings,
    data_settings,
)
from reconet.cli.output import print_note, print_result, show_progress

ImagesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[IMAGE]...",
        help="Images without labels: files, folders, 'globs' or @list.txt. Without any, the masks "
        "of the training images are ranked.",
    ),
]
SplitOption = Annotated[
    str | None,
    typer.Option(
        "--split",
        metavar="NAME",
        help="Split to rank, or to compare new images with; by default that of the training.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Page to write, by default RUN/label-next.html or RUN/label-again.html.",
    ),
]
MostOption = Annotated[
    int, typer.Option("--most", metavar="N", min=1, max=500, help="Images to print and to show.")
]


def suggest(
    network: AnyNetworkArgument,
    images: ImagesArgument = None,
    split: SplitOption = None,
    out: OutOption = None,
    most: MostOption = 30,
    root: RootOption = None,
    changes: SetOption = None,
    data_file: DataOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Suggest images to label next, or masks to look at again.

    Images without labels are ranked by how unsure the network is, and by how different they are
    from its training images. Labelled images are ranked by how confidently the network contradicts
    their masks. The first are shown in an HTML page, with the regions marked (docs/own-data.md).

    \b
    Examples:
      reconet suggest runs/first photos              # which of these to label next
      reconet suggest runs/first --split val         # which of these masks may be wrong
      reconet suggest runs/mine --most 50 --out wrong.html
      reconet suggest runs/mine --data other.yaml --split train --json
    """
    settings = [*data_settings(data_file), *check_settings(changes)]
    from reconet import suggest as work
    from reconet.cli.tables.suggest import suggestion_tables
    from reconet.recipes import apply_overrides

    with show_progress("suggest", "opening the network ...") as progress:
        result = work.suggest(
            network,
            images or (),
            split=split,
            root=root,
            device=device,
            change=lambda recipe: apply_overrides(recipe, settings),
            most=most,
            out=out,
            progress=progress,
        )
    if result is not None:  # of many processes, one has the result
        print_result(result.as_dict(), suggestion_tables(result, most), as_json)
        for note in result.notes:
            print_note(note)
