"""reconet train."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reconet.cli.arguments import (
    DataOption,
    DeviceOption,
    FormatOption,
    ImportOption,
    SetOption,
    resolve_recipe,
)
from reconet.cli.output import print_line, show_progress
from reconet.errors import RecipeError, TrainingError

if TYPE_CHECKING:
    from reconet.recipes import Recipe

RecipeArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="A name of `reconet recipes`, a recipe file, a run, or a folder of your own images.",
    ),
]
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
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="For a folder: print what would be done, write nothing.")
]


def train(
    recipe: RecipeArgument,
    settings: SetOption = None,
    data_file: DataOption = None,
    out: OutOption = None,
    resume: ResumeOption = False,
    device: DeviceOption = "auto",
    log: LogOption = None,
    dry_run: DryRunOption = False,
    format_name: FormatOption = None,
    imports: ImportOption = None,
) -> None:
    """Train a recipe, or on a folder of your own images.

    A folder is recognised and checked, and settings are chosen for it (docs/own-data.md). Ctrl-C
    saves a checkpoint and stops. Run the command again with --resume to continue.

    \b
    Examples:
      reconet train scenes/tiny --out runs/tiny
      reconet train runs/tiny --resume
      reconet train mine/ --dry-run
      reconet train voc12/reconet_r50 --set data.root=/data/voc --out runs/voc
      torchrun --nproc-per-node 8 -m reconet train voc12/reconet_r101 --out runs/voc
    """
    from reconet.cli.own_folder import is_own_folder, train_folder

    _check_loggers(log or ())
    if resume and out is not None and is_own_folder(recipe):
        recipe = str(out)  # the settings were chosen when it began
    if is_own_folder(recipe) and not resume:
        train_folder(recipe, settings, data_file, out, device, format_name, dry_run, log or ())
        return
    directory = out or _default_directory(recipe, resume)
    resolved = resolve_recipe(recipe, settings, data_file)
    if dry_run or format_name:
        raise RecipeError(
            f"--dry-run and --format are for a folder; `reconet show {recipe}` prints a recipe."
        )
    run_recipe(resolved, directory, resume, device, log or ())


def _check_loggers(names: Sequence[str]) -> None:
    """Refuse unknown loggers at once. Their package takes seconds to import, so only if asked."""
    if names:
        from reconet.engine import check_logger

        for name in names:
            check_logger(name)


def run_recipe(
    recipe: "Recipe", directory: Path, resume: bool, device: str, log: Sequence[str]
) -> None:
    """Train a recipe, and say how that ended."""
    from reconet.engine import check_recipe, run_training

    check_recipe(recipe)

    with show_progress("train") as progress:
        outcome = run_training(
            recipe, directory, resume=resume, device=device, log=log, progress=progress
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
    return dated_directory(name)


def dated_directory(name: str) -> Path:
    """Return a run directory that is not there yet."""
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
