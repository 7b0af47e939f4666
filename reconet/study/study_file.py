"""study.json: which study a directory holds, and on which recipe."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from reconet.engine import MAY_CHANGE, lock_directory
from reconet.errors import TrainingError
from reconet.recipes.schema import Recipe, list_settings
from reconet.recipes.storage import validate_recipe
from reconet.study.variants import Study
from reconet.system.files import write_text
from reconet.system.reading import SETTINGS_BYTES, read_file

STUDY = "study.json"


@contextmanager
def lock_study(out: Path, study: Study, base: Recipe) -> Iterator[None]:
    """Create or reopen the directory of a study on a recipe, and lock it against a second writer.

    Raises an error if the directory holds anything else.
    """
    with lock_directory(out):
        path = out / STUDY
        if path.is_file():
            _check_same(path, study, base)
        elif any(entry.name != ".lock" for entry in out.iterdir()):
            raise TrainingError(f"{out} is not empty and holds no study. Name another --out.")
        else:
            values = {"format": 1, "study": study.name, "recipe": base.model_dump(mode="json")}
            write_text(path, json.dumps(values, indent=2) + "\n")
        yield


def is_study(directory: Path) -> bool:
    """Return whether a directory holds a study."""
    return (directory / STUDY).is_file()


def read_study(out: Path) -> tuple[str, Recipe]:
    """Read the name of the study and the recipe that a directory was made with."""
    path = out / STUDY
    try:
        values = json.loads(read_file(path, limit=SETTINGS_BYTES, within=out))
        return str(values["study"]), validate_recipe(values["recipe"], str(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{out} holds no study: cannot read {path}.") from error


def _check_same(path: Path, study: Study, base: Recipe) -> None:
    name, before = read_study(path.parent)
    if name != study.name:
        raise TrainingError(f"{path.parent} holds the study {name}. Name another --out.")
    check_settings(path.parent, before, base)


def check_settings(
    where: Path, before: Recipe, now: Recipe, may_differ: Collection[str] = MAY_CHANGE
) -> None:
    """Raise an error if a directory was made with a recipe that gives other results."""
    pairs = zip(list_settings(before), list_settings(now), strict=True)
    for (key, old, _), (_, new, _) in pairs:
        if old != new and key not in may_differ:
            raise TrainingError(
                f"{where} was started with other settings: {key} is {old} there and {new} "
                "here. Name another --out."
            )
