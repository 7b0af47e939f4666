"""Verbs about training runs."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.common import (
    Device,
    Flip,
    Json,
    Mode,
    Network,
    RecipeName,
    RelativeTo,
    Root,
    Scales,
    Set,
    eval_settings,
    resolve,
)
from reconet.cli.output import bar, print_result
from reconet.errors import TrainingError


def train(
    recipe: RecipeName,
    settings: Set = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory; by default runs/<recipe>-<date-time>.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint, if there is one.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Train a recipe. Ctrl-C saves and stops; --resume goes on from there.

    \b
    Examples:
      reconet train scenes/reconet
      reconet train voc12/reconet_r50 --set data.root=/data/voc --out runs/voc
      reconet train runs/voc --resume
      torchrun --nproc-per-node 8 -m reconet train voc12/reconet_r101 --out runs/voc
    """
    directory = out or _directory(recipe, resume)
    resolved = resolve(recipe, settings)
    from reconet.engine.run import run_training

    outcome = run_training(resolved, directory, resume=resume, device=device)
    early = outcome.stopped_by is not None and not outcome.finished
    if outcome.leads:
        where = f"{outcome.directory} at step {outcome.step} of {outcome.steps}"
        print(
            f"stopped: {where}; go on with --resume" if early else f"finished: {where}",
            file=sys.stderr,
        )
    if outcome.stopped_by is not None and early:
        raise typer.Exit(128 + outcome.stopped_by)


def evaluate(
    run: Network,
    split: Annotated[
        str | None, typer.Option(help="Split to score on; by default the recipe's.")
    ] = None,
    scales: Scales = None,
    flip: Flip = None,
    mode: Mode = None,
    relative_to: RelativeTo = None,
    submit: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write predictions for the dataset's test server."),
    ] = None,
    root: Root = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Scores of a trained network: mIoU, accuracies, and the IoU of every class.

    How images are shown to it is by default what its recipe says, and is printed with the scores.

    \b
    Examples:
      reconet evaluate runs/first
      reconet evaluate runs/voc --scales 0.75,1,1.25,1.5,1.75,2 --flip
      reconet evaluate runs/voc --split test --submit upload
      torchrun --nproc-per-node 8 -m reconet evaluate runs/voc --json
    """
    settings = eval_settings(scales, flip, mode, relative_to)
    from reconet.cli.tables import results as tables
    from reconet.evaluation.evaluate import evaluate_run
    from reconet.recipes.overrides import apply_overrides

    with bar("evaluate") as shown:
        result = evaluate_run(
            run,
            split=split,
            root=root,
            device=device,
            change=lambda recipe: apply_overrides(recipe, settings),
            submit=submit,
            progress=shown.count,
        )
    if result is None:  # another process of this evaluation reports
        return
    print_result(result.as_dict(), tables.score_tables(result), as_json)


def _directory(recipe: str, resume: bool) -> Path:
    """Where a run goes if --out does not say."""
    from reconet.system.run_files import RECIPE

    if resume and (Path(recipe) / RECIPE).is_file():
        return Path(recipe)
    if resume:
        raise TrainingError("--resume needs --out, the run directory to go on with.")
    name = Path(recipe).stem if recipe.endswith(".json") else recipe.strip("/").replace("/", "-")
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
