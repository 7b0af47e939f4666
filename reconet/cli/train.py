"""reconet train."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from reconet.cli.arguments import (
    DataOption,
    DeviceOption,
    ImportOption,
    RecipeArgument,
    SetOption,
    resolve_recipe,
)
from reconet.cli.output import print_line, show_progress
from reconet.errors import TrainingError

OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Run directory, by default runs/<recipe>-<date-time>."
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Resume from the last checkpoint, if there is one.")
]
LogOption = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="NAME",
        help="Record the run with wandb or mlflow too (docs/train.md). May be repeated.",
    ),
]


def train(
    recipe: RecipeArgument,
    settings: SetOption = None,
    data_file: DataOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    device: DeviceOption = "auto",
    log: LogOption = None,
    imports: ImportOption = None,
) -> None:
    """Train the network of a recipe.

    Ctrl-C saves a checkpoint and stops. Run the command again with --resume to continue.

    \b
    Examples:
      reconet train scenes/tiny --out runs/tiny
      reconet train runs/tiny --resume
      reconet train folder/frozen --data mine.yaml --out runs/mine
      reconet train voc12/reconet_r50 --set data.root=/data/voc --out runs/voc
      reconet train scenes/tiny --out runs/recorded --log mlflow
      torchrun --nproc-per-node 8 -m reconet train voc12/reconet_r101 --out runs/voc
    """
    directory = out or _default_directory(recipe, resume)
    resolved = resolve_recipe(recipe, settings, data_file)
    from reconet.engine import check_logger, check_recipe, run_training

    check_recipe(resolved)
    for name in log or ():
        check_logger(name)

    with show_progress("train") as progress:
        outcome = run_training(
            resolved, directory, resume=resume, device=device, log=log or (), progress=progress
        )
    stopped_early = outcome.stopped_by is not None and not outcome.finished
    if outcome.is_first:
        where = f"{outcome.directory} at step {outcome.step} of {outcome.steps}"
        end = f"stopped: {where}; resume with --resume" if stopped_early else f"finished: {where}"
        if outcome.out_of_patience:
            end += ": the score did not improve any more (train.patience)"
        print_line(end, err=True)
    if outcome.stopped_by is not None and stopped_early:
        raise typer.Exit(128 + outcome.stopped_by)


def _default_directory(recipe: str, resume: bool) -> Path:
    from reconet.system.run_files import RECIPE

    if resume and (Path(recipe) / RECIPE).is_file():
        return Path(recipe)
    if resume:
        raise _nothing_to_resume(recipe)
    name = Path(recipe).stem if recipe.endswith(".json") else recipe.strip("/").replace("/", "-")
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


def _nothing_to_resume(recipe: str) -> TrainingError:
    from reconet.recipes import RECIPES
    from reconet.system.run_files import RECIPE

    path = Path(recipe)
    if recipe in RECIPES or path.is_file():
        return TrainingError("--resume needs a run directory: name it as RECIPE or by --out.")
    if not path.exists():
        return TrainingError(f"there is no run to resume: {recipe} does not exist.")
    return TrainingError(f"there is no run to resume: {recipe} has no {RECIPE}.")
