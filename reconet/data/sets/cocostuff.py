"""COCO-Stuff: 80 things and 91 stuff classes.

Two releases: 10k (v1.1; .mat files, 0 unlabelled, 1..182) and 164k ("stuffthingmaps"; PNGs with one
less, 255 unlabelled). Eleven numbers were never drawn; the others close ranks to 0..170.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from reconet.data.dataset import DatasetInfo, FileDataset, Pair
from reconet.data.images.read import read_mat
from reconet.data.labels import LabelReader, label_table
from reconet.data.layout import contents, files_in, find_root, need_folder, read_ids
from reconet.data.names import COCO_STUFF, colour_map
from reconet.errors import AbsentError, DataError
from reconet.types import IGNORE

NEVER_DRAWN = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83, 91}
NUMBERS = [number for number in range(1, 183) if number not in NEVER_DRAWN]
V10_NAMES = 172  # v1.0 counts "unlabeled" as 1 and has no gaps

INFO = DatasetInfo(
    name="cocostuff",
    title="COCO-Stuff",
    classes=COCO_STUFF,
    palette=colour_map(len(COCO_STUFF), first=1),
    splits={"train": 9000, "test": 1000, "val": None},
    disjoint=(("train", "test"), ("train", "val")),
    layout=(
        "10k: images/*.jpg, annotations/*.mat, imageLists/{train,test}.txt",
        "164k: images/{train2017,val2017}/*.jpg, annotations/{train2017,val2017}/*.png",
    ),
    licence="labels CC BY 4.0; images under Flickr's terms of use",
    source="https://github.com/nightrome/cocostuff10k and https://github.com/nightrome/cocostuff",
    notes=("10k has the splits train and test, 164k has train and val", "10k must be v1.1"),
)
INFO_164K = replace(INFO, splits={"train": 118287, "val": 5000}, disjoint=(("train", "val"),))

read_label_mat = LabelReader(
    label_table({0: IGNORE} | {number: index for index, number in enumerate(NUMBERS)}),
    partial(read_mat, key="S"),
)
read_label_png = LabelReader(
    label_table({IGNORE: IGNORE} | {number - 1: index for index, number in enumerate(NUMBERS)})
)


def open_cocostuff(root: Path, split: str) -> FileDataset:
    home = find_root(root, INFO.title, ("images", "annotations"))
    if (home / "images/train2017").is_dir() or (home / "images/val2017").is_dir():
        return _open_164k(home, split)
    return _open_10k(home, split)


def _open_164k(home: Path, split: str) -> FileDataset:
    if split not in INFO_164K.splits:
        raise AbsentError(f"{home} is COCO-Stuff 164k, with the splits train and val, not {split}.")
    labels = need_folder(home / f"annotations/{split}2017")
    pairs = [
        Pair(image.stem, image, labels / f"{image.stem}.png")
        for image in files_in(home / f"images/{split}2017", [".jpg"])
    ]
    return FileDataset(info=INFO_164K, split=split, pairs=pairs, read_label=read_label_png)


def _open_10k(home: Path, split: str) -> FileDataset:
    if split == "val":
        raise AbsentError(f"{home} is COCO-Stuff 10k, with the splits train and test, not val.")
    images, labels = need_folder(home / "images"), need_folder(home / "annotations")
    names = read_ids(home / f"imageLists/{split}.txt")
    if (labels / f"{names[0]}.mat").exists():
        _refuse_v10(labels / f"{names[0]}.mat")
        suffix, read = ".mat", read_label_mat
    elif (labels / f"{names[0]}.png").exists():
        suffix, read = ".png", read_label_png
    else:
        raise DataError(
            f"no {names[0]}.mat in {labels}, the first of {split}; found {contents(labels)}."
        )
    pairs = [Pair(name, images / f"{name}.jpg", labels / f"{name}{suffix}") for name in names]
    return FileDataset(info=INFO, split=split, pairs=pairs, read_label=read)


def _refuse_v10(path: Path) -> None:
    """v1.0 numbers its classes otherwise, and its labels would pass unnoticed."""
    try:
        names = read_mat(path, "names")
    except DataError:  # stripped copies have only S; numbers that v1.1 lacks then tell
        return
    if names.size == V10_NAMES:
        raise DataError(
            f"{path} is of COCO-Stuff v1.0, which numbers its classes otherwise; "
            "get v1.1 (cocostuff-10k-v1.1.zip)."
        )
