"""All datasets by name, and the functions that open and prepare them.

To add one: write a file in sets/ that declares a DatasetEntry, and add one line to DATASETS.
tests/data/sets/test_datasets.py then checks it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from reconet.data import scenes
from reconet.data.dataset import Dataset, DatasetEntry, check_known, read_options
from reconet.data.prepare import Prepared, run_plan
from reconet.data.sets import (
    ade20k,
    camvid,
    cityscapes,
    coco,
    cocostuff,
    folder,
    pcontext,
    siftflow,
    voc12,
)
from reconet.errors import AbsentError, RecipeError, pick, unknown
from reconet.recipes.schema import Data, Recipe, Settings
from reconet.system.progress import SILENT, Progress

ROOT_VARIABLE = "RECONET_DATA"

DATASETS: dict[str, DatasetEntry] = {
    "voc12": voc12.VOC12,
    "pcontext": pcontext.PCONTEXT,
    "pcontext59": pcontext.PCONTEXT59,
    "cocostuff": cocostuff.COCOSTUFF,
    "ade20k": ade20k.ADE20K,
    "siftflow": siftflow.SIFTFLOW,
    "cityscapes": cityscapes.CITYSCAPES,
    "coco": coco.COCO,
    "camvid": camvid.CAMVID,
    "folder": folder.FOLDER,
    "scenes": scenes.SCENES,
}


def open_dataset(
    name: str,
    split: str,
    root: Path | str | None = None,
    options: Mapping[str, object] | None = None,
) -> Dataset:
    """Open one split of a dataset, e.g. open_dataset("voc12", "val", "/data/voc")."""
    entry = pick(DATASETS, name, "dataset")
    own = (options or {}).get("splits")  # users may name splits of their own by an option
    known = [*entry.info.splits, *(own if isinstance(own, Mapping) else ())]
    if split not in known and not entry.own_lists:
        raise unknown(f"split of {name}", split, known)
    place = dataset_root(name, root)
    if entry.options is not None:
        return entry.open(place, split, dataset_options(name, place, options or {}))
    check_known(options or {})
    return entry.open(place, split)


def dataset_options(name: str, root: Path, options: Mapping[str, object]) -> Settings:
    """Return the options of a dataset, completed by what its root tells, and checked."""
    entry = pick(DATASETS, name, "dataset")
    if entry.options is None:
        raise RecipeError(f"{name} has no options.")
    return read_options(entry.options, entry.complete(root, options) if entry.complete else options)


def complete_recipe(recipe: Recipe) -> Recipe:
    """Write what the dataset's root tells, such as class names, into the options of a recipe.

    The recipe then means the same where these files are not. The root becomes absolute, so that it
    means the same from another working directory.
    """
    data = with_absolute_root(recipe.data)
    entry = pick(DATASETS, data.name, "dataset")
    if entry.complete is not None:
        options = dict(entry.complete(dataset_root(data.name, data.root), data.options))
        data = data.model_copy(update={"options": options})
    return recipe.model_copy(update={"data": data})


def with_absolute_root(data: Data) -> Data:
    """Return settings whose root does not depend on the working directory."""
    if data.root is None:
        return data
    return data.model_copy(update={"root": _path(data.root).absolute()})


def open_split(data: Data, split: str, root: Path | str | None = None) -> Dataset:
    """Open a split of a recipe's dataset. `root` overrides the recipe's root."""
    return open_dataset(data.name, split, root or data.root, data.options)


def prepare_dataset(
    name: str,
    root: Path | str | None = None,
    *,
    source: Path | str | None = None,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> Prepared:
    """Convert the files of a dataset that needs it.

    `source` is the place of the files to convert, if they are not near the root.
    """
    entry = pick(DATASETS, name, "dataset")
    if entry.prepare is None:
        able = ", ".join(key for key, other in DATASETS.items() if other.prepare)
        raise RecipeError(f"{name} is read as it is: nothing to prepare. Only {able} need it.")
    plan = entry.prepare(dataset_root(name, root), None if source is None else _path(source))
    return run_plan(plan, workers, progress)


def dataset_root(name: str, root: Path | str | None = None) -> Path:
    """Return the folder of a dataset: `root` if it is given, or $RECONET_DATA/<name>."""
    entry = pick(DATASETS, name, "dataset")
    if root is not None:
        return _path(root)
    if not entry.needs_root:
        return Path()
    folder_name = entry.folder or name
    if not os.environ.get(ROOT_VARIABLE):
        raise AbsentError(
            f"where is {name}? Set data.root (or --root where a command has it), or "
            f"{ROOT_VARIABLE} to the folder that holds {folder_name}."
        )
    return _path(os.environ[ROOT_VARIABLE]) / folder_name


def _path(path: Path | str) -> Path:
    return Path(path).expanduser()
