"""What `reconet train DIR` and `reconet data inspect DIR` share: a folder of your own images."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reconet.cli.output import print_line, print_result, show_progress
from reconet.errors import RecipeError

if TYPE_CHECKING:
    from reconet.engine import Inspection


def is_own_folder(name: str) -> bool:
    """Return whether an argument is a folder of images, and not a recipe or a run."""
    from reconet.recipes import RECIPES
    from reconet.system.run_files import RECIPE

    path = Path(name)
    return name not in RECIPES and path.is_dir() and not (path / RECIPE).is_file()


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


def train_folder(
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
    from reconet.cli.tables.own_folder import inspection_parts
    from reconet.cli.train import dated_directory, run_recipe
    from reconet.engine import check_one_process

    if data_file is not None:
        raise RecipeError(f"--data is for a recipe of `folder`; {name} is a folder by itself.")
    check_one_process(name)
    folder = Path(name)
    found = inspect_own(folder, settings, device, format_name, keep_masks=not dry_run)
    directory = out or dated_directory(folder.resolve().name or "own")
    parts = inspection_parts(found, short=True)
    end = [f"would train in {directory}"] if dry_run and not found.report.problems else []
    print_result({}, [*parts, *end], as_json=False)
    found.check()
    if dry_run:
        return
    run_recipe(found.recipe, directory, resume=False, device=device, log=log)
    _end(folder, directory, device)


def _end(folder: Path, directory: Path, device: str) -> None:
    """Print the score, write the report, and print the commands that come next."""
    from reconet.engine import read_log
    from reconet.report import write_report

    validations = [line for line in read_log(directory) if line["kind"] == "val"]
    best = max(validations, key=lambda line: line.get("miou") or 0.0, default=None)
    with show_progress("report", "reading ...") as progress:
        page = write_report([directory], device=device, progress=progress)
    if best is not None:
        score = 100 * (best.get("miou") or 0.0)
        print_line(f"score: {score:.2f} % mIoU on the validation images, at step {best['step']}")
    print_line(f"report: {page}")
    print_line(f"recipe: {directory / 'recipe.json'} (edit a copy, and train it)")
    run = shlex.quote(str(directory))
    print_line("next:")
    commands = {
        f"reconet predict {run} NEW-IMAGES/ --out labelled": "label new images",
        f"reconet evaluate {run}": "scores of each class",
        f"reconet suggest {run} NEW-IMAGES/": "which to label next",
        f"reconet suggest {run}": "masks that may be wrong",
        f"reconet export {run} --format onnx": "use it elsewhere",
    }
    width = max(map(len, commands))
    for command, use in commands.items():
        print_line(f"  {command.ljust(width)}   # {use}")
