"""PASCAL-Context as PNGs of 60 classes, from either of its two sources."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reconet.data.images.read import read_mat, write_index
from reconet.data.layout import need_folder, read_ids
from reconet.data.names import colour_map
from reconet.data.prepare.instances import Drawing, draw, read_json
from reconet.data.prepare.run import Job, Plan, check_written, write_list
from reconet.data.sets.pcontext import JSON, LISTS, MATS, NUMBERS, PNGS, pcontext_root, read_60_mat
from reconet.errors import DataError

CLASS_OF = {number: index for index, number in enumerate(NUMBERS, 1)}  # others: background
PALETTE = colour_map(256)


def plan_pcontext(root: Path, source: Path | None = None) -> Plan:
    """From the json if there is one, else from the .mat files; `source` names one of them."""
    home = pcontext_root(root)
    for path in (home / JSON, home / MATS) if source is None else (source,):
        if path.is_dir():
            return _plan_mats(home, path)
        if path.exists():
            return _plan_json(home, path)
    place = source or home
    raise DataError(f"no labels in {place}: expected {JSON}, or the folder {MATS} of .mat files.")


def _plan_json(home: Path, path: Path) -> Plan:
    images, annotations = read_json(path, "images", "annos_segmentation")
    instances: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
    splits: dict[str, list[str]] = {"train": [], "val": []}
    jobs = []
    try:
        for annotation in annotations:
            index = CLASS_OF.get(annotation["category_id"], 0)
            instances[annotation["image_id"]].append((index, annotation["segmentation"]))
        for image in images:
            if image["phase"] in splits:
                name = Path(image["file_name"]).stem
                splits[image["phase"]].append(name)
                drawn = instances[image["image_id"]]
                drawing = Drawing(image["height"], image["width"], drawn)
                jobs.append(Job(home / PNGS / f"{name}.png", drawing))
    except KeyError as error:
        raise DataError(f"{path} has an entry without {error}: not of the detail API?") from error
    return Plan(jobs=jobs, work=draw_one, finish=partial(_finish, home, splits, jobs))


def draw_one(job: Job) -> None:
    try:
        label_hw = draw(job.source, first_wins=False)
    except Exception as error:  # bad run lengths can fail in many ways
        raise DataError(f"cannot draw {job.target.stem}: {error}.") from error
    write_index(job.target, label_hw, PALETTE)


def _plan_mats(home: Path, mats: Path) -> Plan:
    need_folder(mats)
    hint = "It comes with VOC 2010."
    splits = {
        name: read_ids(home / f"ImageSets/Main/{name}.txt", hint) for name in ("train", "val")
    }
    names = [*splits["train"], *splits["val"]]
    read_mat(mats / f"{names[0]}.mat", "LabelMap")  # is scipy there? ask before starting workers
    jobs = [Job(home / PNGS / f"{name}.png", mats / f"{name}.mat") for name in names]
    return Plan(jobs=jobs, work=convert_one, finish=partial(_finish, home, splits, jobs))


def convert_one(job: Job) -> None:
    write_index(job.target, read_60_mat(job.source), PALETTE)


def _finish(
    home: Path, splits: Mapping[str, Sequence[str]], jobs: Sequence[Job]
) -> Mapping[str, int]:
    check_written(jobs)
    return {
        split: write_list(home / LISTS / f"{split}.txt", sorted(names))
        for split, names in splits.items()
        if names
    }
