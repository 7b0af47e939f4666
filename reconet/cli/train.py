"""reconet train."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reconet.cli.arguments import (
    DATA,
    DEVICE,
    FORMAT,
    IMPORT,
    SET,
    argument,
    option,
    resolve_recipe,
)
from reconet.cli.output import make_table, print_line, print_result, show_progress
from reconet.errors import RecipeError, TrainingError
from reconet.system.run_files import RECIPE

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reconet.engine import Inspection
    from reconet.recipes import Recipe

MOST_CLASSES = 8  # that the short form names


def train(
    recipe: str = argument(
        "RECIPE",
        "A name of `reconet recipes`, a recipe file, a run, or a folder of your own images.",
    ),
    settings: list[str] | None = SET,
    epochs: int | None = option("--epochs N", "The same as --set train.epochs=N."),
    batch: int | None = option("--batch N", "The same as --set train.batch=N."),
    lr: float | None = option("--lr RATE", "The same as --set optim.lr=RATE."),
    data_file: Path | None = DATA,
    out: Path | None = option("--out DIR", "Run directory, by default runs/<recipe>-<date-time>."),
    resume: bool = option("--resume", "Resume from the last checkpoint, if there is one.", False),
    device: str = DEVICE,
    log: list[str] | None = option(
        "--log NAME", "Record the run with wandb or mlflow too (docs/train.md). May be repeated."
    ),
    dry_run: bool = option(
        "--dry-run", "For a folder: print what would be done, write nothing.", False
    ),
    format_name: str | None = FORMAT,
    imports: list[str] | None = IMPORT,
) -> None:
    """Train a recipe, or on a folder of your own images.

    A folder is recognised and checked, and settings are chosen for it (docs/own-data.md). Ctrl-C
    saves a checkpoint and stops. Run the command again with --resume to continue.

    \b
    Examples:
      reconet train scenes/tiny --out runs/tiny
      reconet train runs/tiny --resume
      reconet train mine/ --dry-run
      reconet train voc12/reconet_r50 --set data.root=/data/voc --epochs 20 --out runs/voc
      torchrun --nproc-per-node 8 -m reconet train voc12/reconet_r101 --out runs/voc
    """
    for name in log or ():  # their packages take seconds to import, so only if asked
        from reconet.engine import check_logger

        check_logger(name)
    short = {"train.epochs": epochs, "train.batch": batch, "optim.lr": lr}
    named = [f"{key}={value}" for key, value in short.items() if value is not None]
    settings = [*(settings or []), *named]
    own_folder = is_own_folder(recipe)
    if own_folder and not resume:
        _train_folder(recipe, settings, data_file, out, device, format_name, dry_run, log or ())
        return
    if own_folder and out is not None:
        recipe = str(out)  # the settings were chosen when it began
    directory = out or _default_directory(recipe, resume)
    resolved = resolve_recipe(recipe, settings, data_file)
    if dry_run or format_name:
        raise RecipeError(
            f"--dry-run and --format are for a folder; `reconet show {recipe}` prints a recipe."
        )
    if _train_recipe(resolved, directory, resume, device, log or ()):
        run = shlex.quote(str(directory))
        commands = {
            f"reconet report {run}": "curves and images",
            f"reconet evaluate {run}": "scores of each class",
            f"reconet predict {run} photo.jpg": "segment an image",
            f"reconet serve {run}": "the same in a browser",
        }
        _print_next(commands)


def is_own_folder(name: str) -> bool:
    """Return whether an argument is a folder of images, and not a recipe or a run."""
    from reconet.recipes import RECIPES

    path = Path(name)
    return name not in RECIPES and path.is_dir() and not (path / RECIPE).is_file()


def _default_directory(recipe: str, resume: bool) -> Path:
    from reconet.recipes import RECIPES

    path = Path(recipe)
    if not resume:
        name = path.stem if recipe.endswith(".json") else recipe.strip("/").replace("/", "-")
        return _dated_directory(name)
    if (path / RECIPE).is_file():
        return path
    if recipe in RECIPES or path.is_file():
        raise TrainingError("--resume needs a run directory: name it as RECIPE or by --out.")
    lacks = f"has no {RECIPE}" if path.exists() else "does not exist"
    raise TrainingError(f"there is no run to resume: {recipe} {lacks}.")


def _dated_directory(name: str) -> Path:
    """Return a run directory that is not there yet."""
    return Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


def _train_recipe(
    recipe: "Recipe", directory: Path, resume: bool, device: str, log: Sequence[str]
) -> bool:
    """Train a recipe, and say how that ended. Return whether to say what is next."""
    from reconet.engine import run_training

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
    return outcome.is_first


def _train_folder(
    name: str,
    settings: list[str] | None,
    data_file: Path | None,
    out: Path | None,
    device: str,
    format_name: str | None,
    dry_run: bool,
    log: Sequence[str],
) -> None:
    """Inspect a folder, train on it, and say what came of it."""
    from reconet.engine import check_one_process

    if data_file is not None:
        raise RecipeError(f"--data is for a recipe of `folder`; {name} is a folder by itself.")
    check_one_process(name)
    folder = Path(name)
    found = inspect_own(folder, settings, device, format_name, keep_masks=not dry_run)
    directory = out or _dated_directory(folder.resolve().name or "own")
    end = [f"would train in {directory}"] if dry_run and not found.report.problems else []
    print_result({}, [*inspection_parts(found, short=True), *end], as_json=False)
    found.check()
    if not dry_run:
        _train_recipe(found.recipe, directory, resume=False, device=device, log=log)
        _say_what_is_next(directory, device)


def inspect_own(
    folder: Path,
    settings: list[str] | None,
    device: str,
    format_name: str | None,
    *,
    keep_masks: bool,
    workers: int | None = None,
) -> "Inspection":
    """Inspect a folder, and show progress."""
    from reconet.engine import inspect_folder

    with show_progress("inspect", "looking at files ...") as progress:
        return inspect_folder(
            folder,
            settings or [],
            format_name=format_name,
            device=device,
            keep_masks=keep_masks,
            workers=workers,
            progress=progress,
        )


def inspection_parts(found: "Inspection", *, short: bool) -> "list[RenderableType]":
    """Return what is known about a folder: what it is, what is wrong, and how to train on it."""
    others = f" (also looks like {', '.join(found.found.others)})" if found.found.others else ""
    parts: list[RenderableType] = [
        f"{found.folder}: {found.title}{others}",
        f"  {found.found.evidence}",
    ]
    if short:
        counts = [f"{one.split} {one.images:,}" for one in found.report.splits]
        classes, shares = found.report.classes, found.facts.shares
        order = sorted(range(len(classes)), key=lambda k: -shares[k])[:MOST_CLASSES]
        named = ", ".join(f"{classes[k]} {100 * shares[k]:.2g} %" for k in order)
        more = ", ..." if len(classes) > len(order) else ""
        parts += [f"images: {', '.join(counts)}", f"classes: {len(classes)} ({named}{more})"]
    else:
        parts += [make_table(t.title, t.columns, t.rows) for t in found.report.listings()]
    parts += [f"note: {note}" for note in found.notes]
    parts += [line for line in found.report.lines()[:-1] if not line.startswith("not there: ")]
    columns = ("setting", "value", "why")
    return [*parts, make_table("Settings", columns, found.rows, text=columns)]


def _say_what_is_next(directory: Path, device: str) -> None:
    """Print the score, write the report, and print the commands that come next."""
    from reconet.engine import read_log
    from reconet.report import write_report

    validations = [line for line in read_log(directory) if line["kind"] == "val"]
    with show_progress("report", "reading ...") as progress:
        page = write_report([directory], device=device, progress=progress)
    if validations:
        best = max(validations, key=lambda line: line.get("miou") or 0.0)
        score = 100 * (best.get("miou") or 0.0)
        print_line(f"score: {score:.2f} % mIoU on the validation images, at step {best['step']}")
    print_line(f"report: {page}")
    print_line(f"recipe: {directory / RECIPE} (edit a copy, and train it)")
    run = shlex.quote(str(directory))
    commands = {
        f"reconet predict {run} NEW-IMAGES/ --out labelled": "label new images",
        f"reconet evaluate {run}": "scores of each class",
        f"reconet suggest {run} NEW-IMAGES/": "which to label next",
        f"reconet suggest {run}": "masks that may be wrong",
        f"reconet export {run} --format onnx": "use it elsewhere",
    }
    _print_next(commands)


def _print_next(commands: Mapping[str, str]) -> None:
    """Print commands with what they are for."""
    print_line("next:")
    width = max(map(len, commands))
    for command, use in commands.items():
        print_line(f"  {command.ljust(width)}   # {use}")
