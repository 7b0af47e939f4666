"""Verbs that look inside a network, and that make it smaller by what they see."""

from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.common import Device, Json, Root, Run
from reconet.cli.output import bar, busy, print_result
from reconet.errors import RecipeError


def explain(
    run: Run,
    image: Annotated[
        str,
        typer.Argument(
            metavar="IMAGE", help="A file, or SPLIT:NUMBER or SPLIT:NAME of the run's dataset."
        ),
    ],
    ranks: Annotated[
        str | None,
        typer.Option(
            metavar="N|I,J,...",
            help="How many ranks of largest lambda, by default 4; or which: 3,17, or 7, (with a "
            "comma) for rank 7 alone.",
        ),
    ] = None,
    point: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y",
            help="Of other contexts: where to look from, as parts of width and height.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="By default RUN/explain/<image>.")
    ] = None,
    root: Root = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """What a network looks at in an image: attention maps, fragments, what each rank does.

    Writes figures and explain.html, one file with all in it. Other contexts than reconet show the
    attention that they have.

    \b
    Examples:
      reconet explain runs/first val:3
      reconet explain runs/voc street.jpg --ranks 6 --out street
      reconet explain runs/voc val:2007_000033 --ranks 3,17,40
      reconet explain runs/voc street.jpg --ranks 7,
      reconet explain runs/danet street.jpg --point 0.25,0.6
    """
    from rich.text import Text

    from reconet.explain import PAGE, explain_image, parse_point

    at = None if point is None else parse_point(point)
    with busy("looking ..."):
        result = explain_image(run, image, ranks=ranks, point=at, out=out, root=root, device=device)
    print_result(
        {"directory": str(result.directory)} | result.values,
        [*map(Text, result.findings), Text(str(result.directory / PAGE))],
        as_json,
    )


def prune(
    run: Run,
    rank: Annotated[
        str, typer.Option(metavar="N[,N...]", help="Ranks to keep; several for a table of them.")
    ],
    split: Annotated[
        str | None,
        typer.Option(help="Split to choose the ranks by; by default what it was trained on."),
    ] = None,
    images: Annotated[
        int, typer.Option(min=1, help="Images of that split, spread evenly over it.")
    ] = 64,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="By default RUN-rank<N>; of several ranks DIR/rank<N> for each."
        ),
    ] = None,
    root: Root = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Keep the ranks of a RecoNet that matter, each with its lambda, and measure the difference.

    What it writes is like a run: evaluate, predict, export it, or train its recipe.json further.

    \b
    Examples:
      reconet prune runs/voc --rank 32
      reconet prune runs/first --rank 4,8,16 --out runs/pruned --json
      reconet train runs/voc-rank32/recipe.json --out runs/tuned
    """
    from reconet.cli.tables import results as tables
    from reconet.prune import prune_run

    wanted = _ranks(rank)
    with bar("prune") as shown:
        result = prune_run(
            run,
            wanted,
            split=split,
            images=images,
            out=out,
            root=root,
            device=device,
            progress=lambda text, total: shown.count(total, text),
        )
    print_result(result.as_dict(), [tables.prune_table(result), *result.directories], as_json)


def _ranks(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise RecipeError(f"--rank takes numbers above 0 such as 32 or 8,16,32, got {text!r}.")
    return sorted({int(part) for part in parts}, reverse=True)
