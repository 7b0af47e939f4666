"""reconet prune."""

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
from reconet.errors import RecipeError

RankOption = Annotated[
    str,
    typer.Option("--rank", metavar="N[,N...]", help="Ranks to keep. Several make a table."),
]
SplitOption = Annotated[
    str | None,
    typer.Option(
        "--split", metavar="NAME", help="Split to choose the ranks by, by default the training's."
    ),
]
ImagesOption = Annotated[
    int,
    typer.Option("--images", metavar="N", min=1, help="Images of that split, evenly spaced."),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="By default RUN-rank<N> or <name>-rank<N>. Several ranks go into DIR/rank<N>.",
    ),
]


def prune(
    network: NetworkArgument,
    rank: RankOption,
    split: SplitOption = None,
    images: ImagesOption = 64,
    out: OutOption = None,
    root: RootOption = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    imports: ImportOption = None,
) -> None:
    """Keep the ranks that matter most, and measure the difference.

    The result is a run directory: you can evaluate it, predict with it, export it, or train its
    recipe.json further.

    \b
    Examples:
      reconet prune runs/first --rank 4
      reconet prune runs/first --rank 2,4,6 --out runs/pruned --json
      reconet train runs/first-rank4/recipe.json --out runs/tuned
    """
    ranks = _parse_ranks(rank)
    from reconet.cli.tables.prune import prune_table
    from reconet.prune import prune_run

    with show_progress("prune") as progress:
        result = prune_run(
            network,
            ranks,
            split=split,
            images=images,
            out=out,
            root=root,
            device=device,
            progress=progress,
        )
    print_result(result.as_dict(), [prune_table(result), *result.directories], as_json)


def _parse_ranks(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise RecipeError(f"--rank takes numbers above 0 such as 32 or 8,16,32, got {text!r}.")
    return sorted({int(part) for part in parts}, reverse=True)
