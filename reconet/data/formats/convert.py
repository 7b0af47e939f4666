"""Draw the masks of a folder once, and keep them in the cache.

    $RECONET_CACHE/labels/<digest of the annotations>/
        000000.png ...              a mask for each image: class numbers, 255 is void
        train.tsv, val.tsv          an image and its mask on each line; or all.tsv
        mine.yaml                   the folder as a dataset that every verb takes
        about.json                  for `reconet cache list`

A mask is written in one move, so a conversion that was stopped resumes. Where masks are read as
they are, only the lists are written.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from reconet.data.dataset import Dataset, Pair
from reconet.data.formats.draw import Drawing, SegmentFile, draw
from reconet.data.formats.reading import OwnData
from reconet.data.images.draw import write_mask
from reconet.data.labels import LabelReader
from reconet.data.prepare import Job, PreparePlan, check_written, run_plan, write_list
from reconet.data.sets.folder import Found, dataset_of, name_of
from reconet.data.sets.folder_masks import FolderOptions
from reconet.data.sets.folder_val import divide_pairs
from reconet.errors import DataError, OutputError
from reconet.system.files import lock_file, open_own, write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.user_cache import LABELS, cache_root
from reconet.types import Label

ABOUT, LOCK = "about.json", ".lock"
ALL = "all.tsv"
MINE = "mine.yaml"
BREAKS = "\t\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"  # of lines, and between their parts


def labels_folder(own: OwnData) -> Path | None:
    """Return the folder of the masks in the cache, or None if nothing has to be kept there."""
    return cache_root().absolute() / LABELS / own.digest if own.images else None


def folder_options(own: OwnData) -> dict[str, Any]:
    """Return the options by which the dataset `folder` opens these data, once they are kept."""
    place, options = labels_folder(own), {**own.options, "val_choice": "images"}
    if place is None:
        return options
    return {**options, "pairs": str(place / (ALL if _one_list(own) else "{split}.tsv"))}


def is_kept(own: OwnData) -> bool:
    """Return whether the masks and lists are in the cache, or need not be."""
    place = labels_folder(own)
    return place is None or (place / ABOUT).is_file()


def keep(own: OwnData, workers: int | None = None, progress: Progress = SILENT) -> None:
    """Write the masks and lists that the cache does not have yet."""
    place = labels_folder(own)
    if place is None or is_kept(own):
        return
    jobs = [
        Job(place / mask_name(index), one.labels)
        for index, one in enumerate(own.images)
        if not isinstance(one.labels, Path)
    ]
    plan = PreparePlan(jobs=jobs, work=draw_mask, finish=lambda: _finish(own, place, jobs))
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle = open_own(place / LOCK, os.O_RDWR)
    except OSError as error:
        raise OutputError(f"cannot use {place}: {error.strerror}.") from error
    with os.fdopen(handle):
        with suppress(OSError):  # a file system without locks: two then write the same bytes
            lock_file(handle)
        run_plan(plan, workers, progress)  # one process at a time; others then find the masks


def draw_mask(job: Job) -> None:
    """Draw one mask and write it."""
    write_mask(job.target, draw(job.source), ())


def open_drawn(own: OwnData, options: FolderOptions) -> list[Dataset]:
    """Open the splits without the cache: masks are drawn whenever they are read."""
    place = labels_folder(own) or Path()
    drawings = {
        place / mask_name(index): one.labels
        for index, one in enumerate(own.images)
        if not isinstance(one.labels, Path)
    }
    opened: list[Dataset] = []
    for split, pairs in _pairs(own, place, options).items():
        dataset = dataset_of(split, options, Found(pairs))
        if drawings and isinstance(dataset.read_label, LabelReader):
            reader = replace(dataset.read_label, read=partial(_draw_one, drawings=drawings))
            dataset = replace(dataset, read_label=reader)
        opened.append(dataset)
    return opened


def _draw_one(path: Path, drawings: Mapping[Path, Drawing | SegmentFile]) -> Label:
    """Draw the mask that a path of the cache would hold."""
    return draw(drawings[path])


def mask_name(index: int) -> str:
    """Name the mask of an image. Its number is safe, whatever the image is called."""
    return f"{index:06d}.png"


def _one_list(own: OwnData) -> bool:
    """Return whether nothing tells the splits, so that `folder` may split as it does."""
    splits = {one.split for one in own.images}
    return "test" not in splits and not {"train", "val"} <= splits


def _pairs(own: OwnData, place: Path, options: FolderOptions) -> dict[str, list[Pair]]:
    """Return image and mask of each split."""
    pairs: dict[str, Pair] = {}
    split_of: dict[str, str] = {}
    for index, one in enumerate(own.images):
        file = one.image.as_posix()
        if file != file.strip() or any(c in BREAKS or "\ud800" <= c <= "\udfff" for c in file):
            raise DataError(f"rename {str(own.folder / one.image)!r}: no list can hold its name.")
        name = name_of(file)
        if name in pairs:
            raise DataError(f"{own.folder} has several images called {name}: rename one of them.")
        mask = one.labels.absolute() if isinstance(one.labels, Path) else place / mask_name(index)
        pairs[name] = Pair(name, own.folder.absolute() / one.image, mask)
        split_of[name] = one.split
    if not {"train", "val"} <= set(split_of.values()):
        kept = [n for n in sorted(pairs) if not _one_list(own) or options.keeps("", n)]
        rest = [pairs[name] for name in kept if split_of[name] != "test"]
        for split in ("train", "val"):
            split_of |= {pair.name: split for pair in divide_pairs(split, rest, options)}
    found: dict[str, list[Pair]] = {"train": [], "val": [], "test": []}
    for name, pair in sorted(pairs.items()):  # one order for all formats: it decides the batches
        found[split_of[name] or "train"].append(pair)
    return {split: some for split, some in found.items() if some}


def _finish(own: OwnData, place: Path, jobs: Sequence[Job]) -> dict[str, int]:
    check_written(jobs)
    every = _pairs(own, place, FolderOptions.model_validate(folder_options(own)))
    if _one_list(own):
        every = {Path(ALL).stem: [pair for some in every.values() for pair in some]}
    root = own.folder.absolute()
    counts = {
        split: write_list(
            place / f"{split}.tsv", [f"{p.image.relative_to(root)}\t{p.mask}" for p in some]
        )
        for split, some in every.items()
    }
    described = {"root": str(root), **folder_options(own)}
    write_text(place / MINE, json.dumps(described, indent=1) + "\n")  # JSON is YAML too
    about = {"dataset": "folder", "root": str(root), "entries": len(own.images)}
    write_text(place / ABOUT, json.dumps(about))  # last: it says that all is there
    return counts
