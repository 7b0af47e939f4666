"""Datasets, by name. To add one: write a file here, and add one entry to DATASETS.

tests/data/sets/test_datasets.py then checks it on its own; nothing else needs to know the new name.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reconet.data.dataset import Dataset, DatasetInfo
from reconet.data.prepare.coco import plan_coco
from reconet.data.prepare.pcontext import plan_pcontext
from reconet.data.prepare.run import Plan, Prepared, Progress, run
from reconet.data.prepare.voc12 import plan_voc12
from reconet.data.scenes import dataset as scenes
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
from reconet.recipes.schema import Data

ROOT_VARIABLE = "RECONET_DATA"

Open = Callable[[Path, str, Mapping[str, object]], Dataset]


@dataclass(frozen=True, kw_only=True)
class DatasetKind:
    info: DatasetInfo
    open: Open  # root, split, options
    prepare: Callable[[Path, Path | None], Plan] | None = None  # root, source
    needs_root: bool = True
    folder: str | None = None  # under $RECONET_DATA, where it is not the name


def without_options(opened: Callable[[Path, str], Dataset]) -> Open:
    def open_dataset(root: Path, split: str, options: Mapping[str, object]) -> Dataset:
        if options:
            raise unknown("option data.options", min(options), ())
        return opened(root, split)

    return open_dataset


DATASETS: dict[str, DatasetKind] = {
    "voc12": DatasetKind(
        info=voc12.INFO, open=without_options(voc12.open_voc12), prepare=plan_voc12
    ),
    "pcontext": DatasetKind(
        info=pcontext.INFO_60, open=without_options(pcontext.open_pcontext), prepare=plan_pcontext
    ),
    "pcontext59": DatasetKind(
        info=pcontext.INFO_59,
        open=without_options(pcontext.open_pcontext59),
        prepare=plan_pcontext,
        folder="pcontext",
    ),
    "cocostuff": DatasetKind(info=cocostuff.INFO, open=without_options(cocostuff.open_cocostuff)),
    "ade20k": DatasetKind(info=ade20k.INFO, open=without_options(ade20k.open_ade20k)),
    "siftflow": DatasetKind(info=siftflow.INFO, open=without_options(siftflow.open_siftflow)),
    "cityscapes": DatasetKind(
        info=cityscapes.INFO, open=without_options(cityscapes.open_cityscapes)
    ),
    "coco": DatasetKind(info=coco.INFO, open=without_options(coco.open_coco), prepare=plan_coco),
    "camvid": DatasetKind(info=camvid.INFO, open=without_options(camvid.open_camvid)),
    "folder": DatasetKind(info=folder.INFO, open=folder.open_folder),
    "scenes": DatasetKind(info=scenes.INFO, open=scenes.open_scenes, needs_root=False),
}


def open_dataset(
    name: str,
    split: str,
    root: Path | str | None = None,
    options: Mapping[str, object] | None = None,
) -> Dataset:
    """Open one split of a dataset, e.g. open_dataset("voc12", "val", "/data/voc")."""
    kind = pick(DATASETS, name, "dataset")
    if split not in kind.info.splits:
        raise unknown(f"split of {name}", split, kind.info.splits)
    return kind.open(dataset_root(name, root), split, options or {})


def open_split(data: Data, split: str, root: Path | str | None = None) -> Dataset:
    """A split of a recipe's dataset, which may be at another root than the recipe says."""
    return open_dataset(data.name, split, root or data.root, data.options)


def prepare_dataset(
    name: str,
    root: Path | str | None = None,
    *,
    source: Path | str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Convert what a dataset needs converted; `source` is where, if not near the root."""
    kind = pick(DATASETS, name, "dataset")
    if kind.prepare is None:
        able = ", ".join(key for key, other in DATASETS.items() if other.prepare)
        raise RecipeError(f"{name} is read as it is: nothing to prepare. Only {able} need it.")
    plan = kind.prepare(dataset_root(name, root), None if source is None else _path(source))
    return run(plan, workers, progress)


def dataset_root(name: str, root: Path | str | None = None) -> Path:
    """The folder of a dataset: the one that is given, or $RECONET_DATA/<name>."""
    kind = pick(DATASETS, name, "dataset")
    if root is not None:
        return _path(root)
    if not kind.needs_root:
        return Path()
    if not os.environ.get(ROOT_VARIABLE):
        raise AbsentError(
            f"where is {name}? Give --root or data.root, or set {ROOT_VARIABLE} to the folder that "
            f"holds {kind.folder or name}."
        )
    return _path(os.environ[ROOT_VARIABLE]) / (kind.folder or name)


def _path(path: Path | str) -> Path:
    return Path(path).expanduser()
