"""Open and lock a run directory, and keep its log.

recipe.json        the complete recipe
log.jsonl          values of the training and of validations, one JSON object per line
starts.jsonl       one line per start of the training: its step and its machine; another one tells
                   how long it was expected to take
class_counts.json  pixels of each class, if loss.class_weights is "balanced"
records.json       ids of the run at wandb and mlflow, if it is recorded there
events…            the values of log.jsonl for TensorBoard
last.pt            the state that the training resumes from
best.safetensors   the network with the best validation score
validation.json    its confusion matrix, and some predictions as `report` shows them
predictions.png    these predictions in one image

The log never knows more than last.pt: a resumed training writes the lines after it again.
last.pt is there from step 0 on, so a run with best.safetensors and without last.pt has lost it.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from reconet.engine.checkpoint import offer_best, saved_step
from reconet.errors import OutputError, TrainingError
from reconet.evaluation.metrics import without_nan
from reconet.recipes import read_recipe, write_recipe
from reconet.recipes.schema import Recipe, list_settings
from reconet.system.distributed import Processes
from reconet.system.files import (
    append_text,
    lock_file,
    open_own,
    remove_temporary_files,
    write_text,
)
from reconet.system.hardware import environment
from reconet.system.reading import read_file
from reconet.system.run_files import (
    BEST,
    CLASS_COUNTS,
    LAST,
    LOCK,
    LOG,
    RECIPE,
    SHEET,
    STARTS,
    VALIDATION,
)

WITHOUT_LOCKS = "RECONET_WITHOUT_LOCKS"  # set to 1 where locks are not supported
# Settings that may differ when a training resumes. They do not change its result, but that it may
# go on where an image cannot be read.
MAY_CHANGE = frozenset({"data.root", "data.workers", "data.on_error"})
# Settings that may differ if they make the training longer. The learning rate then decays anew.
MAY_EXTEND = frozenset({"train.steps", "train.epochs", "train.patience"})
START, FORECAST = "start", "forecast"  # kinds of lines about starts


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Lock a run directory against a second process.

    The lock ends with the process that holds it, however that ends.
    """
    with ExitStack() as stack:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            handle = open_own(directory / LOCK, os.O_RDWR)
            stack.callback(os.close, handle)
            folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, folder)
        except OSError as error:
            raise OutputError(f"cannot use {directory}: {error.strerror}.") from error
        # The folder too: somebody may delete the lock file while a training holds it.
        for place in (handle, folder):
            try:
                lock_file(place, wait=False)
            except BlockingIOError as error:
                raise TrainingError(f"another process is training in {directory}.") from error
            except OSError as error:
                # Some network file systems lock files, and no folders.
                if place == handle and os.environ.get(WITHOUT_LOCKS) != "1":
                    raise TrainingError(
                        f"the file system of {directory} cannot lock files ({error.strerror}); "
                        f"name an --out on another one, or set {WITHOUT_LOCKS}=1 and make sure "
                        "that no other process trains there."
                    ) from error
        yield


def open_run(directory: Path, recipe: Recipe, *, resume: bool) -> tuple[bool, Recipe]:
    """Start or resume a run. Nothing is written yet: a start that fails leaves nothing behind.

    Returns whether there is a checkpoint, and the recipe that the run was started with.
    """
    for name in (RECIPE, LOG, LAST, BEST, VALIDATION, SHEET, CLASS_COUNTS):
        remove_temporary_files(directory / name)
    if not (directory / RECIPE).exists():
        if any(entry.name not in (LOCK, CLASS_COUNTS) for entry in directory.iterdir()):
            raise TrainingError(
                f"{directory} is not empty and holds no run; name another directory."
            )
        return False, recipe
    has_last, has_best = ((directory / name).exists() for name in (LAST, BEST))
    lost = has_best and not has_last
    if not (resume or has_best) and has_last and saved_step(directory / LAST) == 0:
        return False, recipe  # its training failed before it had anything to lose
    if not resume:
        how = "" if lost else "resume it (--resume, in Python resume=True), or "
        raise TrainingError(
            f"{directory} already holds a run; {how}name another directory (--out)."
            f"{offer_best(directory) if lost else ''}"
        )
    if lost:
        raise TrainingError(f"{directory} has no {LAST} to resume from.{offer_best(directory)}")
    before = read_recipe(directory / RECIPE)
    pairs = zip(list_settings(before), list_settings(recipe), strict=True)
    for (name, old, _), (_, now, _) in pairs:
        if old != now and name not in MAY_CHANGE | MAY_EXTEND:
            raise TrainingError(
                f"{directory} was started with another recipe: {name} is {old} there and "
                f"{now} here; name another directory, or train.init_from={directory}."
            )
    return has_last, before


def keep_changes(directory: Path, before: Recipe, recipe: Recipe) -> None:
    """Write the recipe of a new run, or what changed in a resumed one beside its machine."""
    data = before.data.model_copy(update={"on_error": recipe.data.on_error})
    changed = before.model_copy(update={"train": recipe.train, "data": data})
    path = directory / RECIPE
    if not path.exists() or read_recipe(path) != changed:
        write_recipe(changed, path)


class Log:
    """The file log.jsonl, open for more lines."""

    def __init__(self, directory: Path, step: int) -> None:
        """Remove every line after `step`. The training will write the same lines again."""
        self._path = directory / LOG
        kept = [line for line in read_log(directory) if line["step"] <= step and step > 0]
        if self._path.exists():
            write_text(self._path, "".join(_text(line) for line in kept))

    def write(self, **values: Any) -> None:
        """Append one line."""
        append_text(self._path, _text(values))


def append_start(directory: Path, step: int, processes: Processes) -> None:
    """Record the step and the machine that a training starts on."""
    machine = dict(environment(processes.device))
    line = {"kind": START, "step": step, "processes": processes.size, **machine}
    append_text(directory / STARTS, _text(line))


def append_forecast(directory: Path, step: int, values: dict[str, float]) -> None:
    """Record how long the training was expected to take."""
    append_text(directory / STARTS, _text({"kind": FORECAST, "step": step, **values}))


def read_starts(directory: Path) -> list[dict[str, Any]]:
    """Read when and on which machine a training was started."""
    return [line for line in read_log(directory, STARTS) if line["kind"] == START]


def read_log(directory: Path, name: str = LOG) -> list[dict[str, Any]]:
    """Read the lines of a run's log. A line that a crash has cut off or spoilt is left out."""
    path = directory / name
    try:
        text = read_file(path, within=directory).decode(errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TrainingError(f"cannot read {path}: {error.strerror}.") from error
    return [line for line in map(_parse, text.splitlines()) if line is not None]


def _text(line: dict[str, Any]) -> str:
    return json.dumps(without_nan(line)) + "\n"


def _parse(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(line, dict) and type(line.get("step")) is int
    return line if whole and isinstance(line.get("kind"), str) else None
