"""The verb that uses a trained network on images."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconet.cli.common import (
    Device,
    Flip,
    Json,
    Mode,
    Network,
    Precision,
    RelativeTo,
    Scales,
    eval_settings,
    parse_amount,
)
from reconet.cli.output import bar, note, print_result

if TYPE_CHECKING:
    from reconet.inference.folder import Outcome

LEAST = 2**26  # bytes: less is no room for a network


def predict(
    run: Network,
    images: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGE...",
            help="Files, folders (with all below), 'globs' in quotes, or @list.txt: a file with "
            "one path on each line (@- reads it from the standard input).",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="By default RUN/predictions; of an export predictions-<its name>.",
        ),
    ] = None,
    overlay: Annotated[
        bool, typer.Option("--overlay/--no-overlay", help="Also write the tinted image.")
    ] = True,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write all probabilities, as .npz.")
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Do all again, also what another network has written."),
    ] = False,
    scales: Scales = None,
    flip: Flip = None,
    mode: Mode = None,
    relative_to: RelativeTo = None,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="For sums and the network's maps, e.g. 500MB.")
    ] = "2GiB",
    precision: Precision = "auto",
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Labels of images: an index PNG and an overlay for each, in a folder.

    Images that are done already are skipped, so a run that was stopped goes on. A broken file
    is listed at the end, and the exit code is 1; no file but our own is ever overwritten.

    \b
    Examples:
      reconet predict runs/first street.jpg
      reconet predict runs/voc holiday/ --out labelled --scales 0.75,1,1.25 --flip
      reconet predict runs/voc 'shots/*/left.png' --probabilities --json
      find . -name '*.jpg' | reconet predict runs/voc @- --out labelled
      torchrun --nproc-per-node 8 -m reconet predict runs/voc holiday/
    """
    settings = eval_settings(scales, flip, mode, relative_to)
    budget = parse_amount(memory, "--memory", LEAST)
    from reconet.inference.folder import Wanted, predict_files
    from reconet.recipes.overrides import apply_overrides

    with bar("predict") as shown:
        outcome = predict_files(
            run,
            images,
            out,
            wanted=Wanted(overlay=overlay, probabilities=probabilities),
            change=lambda recipe: apply_overrides(recipe, settings),
            memory=budget,
            device=device,
            precision=precision,
            overwrite=overwrite,
            progress=shown.count,
        )
    if outcome is None:  # another process reports
        return
    from reconet.cli.tables import results as tables

    print_result(outcome.as_dict(), tables.prediction_tables(outcome), as_json)
    _tell(outcome)
    if outcome.having("failed"):
        raise typer.Exit(1)


def _tell(outcome: "Outcome") -> None:
    """One line for each image that needs a word."""
    for image in outcome.images:
        source = image["source"]
        shown = source if source.isprintable() else repr(source)
        if image.get("note") and image["status"] == "done":
            note(f"{shown}: {image['note']}")
        if image["status"] == "failed":
            reason = " ".join(image["error"].replace(source, shown).split())
            where = "" if shown in reason else f"{shown}: "
            print(f"reconet: failed: {where}{reason}", file=sys.stderr)
