"""The files of a run: who may write them, and a log that never says more than the checkpoint knows.

recipe.json        the resolved recipe
log.jsonl          one JSON object a line: training figures and validations
starts.jsonl       one for each start of the training: from which step, on what
events…            the same for TensorBoard
last.pt            training state
best.safetensors   the network with the best validation
predictions.png    what that network sees
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reconet.errors import OutputError, TrainingError
from reconet.evaluation.benchmarks import plain
from reconet.recipes.schema import Recipe, list_settings
from reconet.recipes.storage import read_recipe, write_recipe
from reconet.system.distributed import World
from reconet.system.files import remove_strays, write_text
from reconet.system.hardware import environment
from reconet.system.run_files import BEST, LAST, LOCK, LOG, RECIPE, SHEET, STARTS

# Where the files are and how many processes read them changes nothing about the result.
MAY_CHANGE = frozenset({"data.root", "data.workers"})


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Refuse a second process. The lock goes with the process that holds it, however it ends."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise OutputError(f"cannot use {directory}: {error.strerror}.") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise TrainingError(f"another process is training in {directory}.") from error
    try:
        yield
    finally:
        os.close(handle)


def enter(directory: Path, recipe: Recipe, *, resume: bool) -> bool:
    """Start a run, or go on with it: True if there is a checkpoint to go on from."""
    path = directory / RECIPE
    for name in (RECIPE, LOG, LAST, BEST, SHEET):
        remove_strays(directory / name)
    if path.exists() and not (directory / LAST).exists() and not read_log(directory):
        write_recipe(recipe, path)  # a start that failed has left nothing to lose
    elif path.exists():
        if not resume:
            raise TrainingError(
                f"{directory} already holds a run; add --resume to go on with it, "
                "or name another --out."
            )
        _same(read_recipe(path), recipe, directory)
    elif any(entry.name != LOCK for entry in directory.iterdir()):
        raise TrainingError(f"{directory} is not empty and holds no run; name another --out.")
    else:
        write_recipe(recipe, path)
    return (directory / LAST).exists()


def _same(old: Recipe, new: Recipe, directory: Path) -> None:
    pairs = zip(list_settings(old), list_settings(new), strict=True)
    for (name, before, _), (_, now, _) in pairs:
        if before != now and name not in MAY_CHANGE:
            raise TrainingError(
                f"{directory} was started with another recipe: {name} is {before} there and "
                f"{now} here; name another --out, or train.init_from={directory}."
            )


class Log:
    """log.jsonl, open for more."""

    def __init__(self, directory: Path, step: int) -> None:
        """Forget every line after `step`: what they tell will happen again, and the same."""
        self._path = directory / LOG
        kept = [line for line in read_log(directory) if line["step"] <= step]
        write_text(self._path, "".join(_text(line) for line in kept))

    def write(self, **figures: Any) -> None:
        _append(self._path, figures)


def note_start(directory: Path, step: int, world: World) -> None:
    """Keep on what the training goes on from `step`."""
    place = dict(environment(world.device))
    _append(directory / STARTS, {"kind": "start", "step": step, "processes": world.size, **place})


def _append(path: Path, line: dict[str, Any]) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(_text(line))
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}.") from error


def read_log(directory: Path, name: str = LOG) -> list[dict[str, Any]]:
    """The lines of a run's log; one that a crash has cut off or spoilt is left out."""
    path = directory / name
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return [line for line in map(_line, text.splitlines()) if line is not None]


def _text(line: dict[str, Any]) -> str:
    return json.dumps(plain(line)) + "\n"


def _line(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(line, dict) and type(line.get("step")) is int
    return line if whole and isinstance(line.get("kind"), str) else None
