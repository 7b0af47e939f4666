"""PASCAL-Context: the images of VOC 2010 with all of the scene labelled.

The labels come as one .mat per image, with 459 numbers, or as the json of the "detail" API, with
those of the same numbers that belong to the 59 classes of the benchmark. Classes are in the order
of the numbers, which is alphabetical. `reconet data prepare pcontext` turns either into PNGs;
.mat files are also read as they are.
"""

from functools import partial
from pathlib import Path

from reconet.data.dataset import DatasetInfo, FileDataset, Pair
from reconet.data.images.read import read_mat
from reconet.data.labels import LabelReader, in_order, label_table
from reconet.data.layout import find_root, need_folder, read_ids
from reconet.data.names import PASCAL_CONTEXT, colour_map
from reconet.errors import DataError
from reconet.types import IGNORE

# The numbers of the 59 classes among the 459, in the order of PASCAL_CONTEXT.
NUMBERS = (
    *(2, 9, 18, 19, 22, 23, 25, 31, 33, 34, 44, 45, 46, 59, 65, 68, 72, 80, 85, 98),
    *(104, 105, 113, 115, 144, 158, 159, 162, 187, 189, 207, 220, 232, 258, 259, 260, 284),
    *(295, 296, 308, 324, 326, 347, 349, 354, 355, 360, 366, 368, 397, 415, 416, 420, 424),
    *(427, 440, 445, 454, 458),
)
LARGEST = 459
PNGS = "SegmentationClassContext"
LISTS = "ImageSets/SegmentationContext"
MATS = "trainval"
JSON = "trainval_merged.json"

INFO_60 = DatasetInfo(
    name="pcontext",
    title="PASCAL-Context, 59 classes and background",
    classes=("background", *PASCAL_CONTEXT),
    palette=colour_map(60),
    splits={"train": 4998, "val": 5105},
    disjoint=(("train", "val"),),
    layout=(
        "VOCdevkit/VOC2010/JPEGImages/*.jpg",
        f"VOCdevkit/VOC2010/{JSON}, or {MATS}/*.mat and ImageSets/Main/{{train,val}}.txt",
        f"VOCdevkit/VOC2010/{PNGS}/*.png (made by prepare)",
        f"VOCdevkit/VOC2010/{LISTS}/{{train,val}}.txt (made by prepare)",
    ),
    licence="images under Flickr's terms of use; labels for research",
    source="https://cs.stanford.edu/~roozbeh/pascal-context/ (.mat), the PASCAL in Detail "
    "challenge (json), http://host.robots.ox.ac.uk/pascal/VOC/voc2010/ (images)",
    notes=("classes in alphabetical order", "background is a class and is scored"),
)
INFO_59 = DatasetInfo(
    name="pcontext59",
    title="PASCAL-Context, 59 classes",
    classes=PASCAL_CONTEXT,
    palette=colour_map(59, first=1),
    splits=INFO_60.splits,
    disjoint=INFO_60.disjoint,
    layout=INFO_60.layout,
    licence=INFO_60.licence,
    source=INFO_60.source,
    notes=("classes in alphabetical order", "background is not scored"),
)

_SIXTY = dict.fromkeys(range(LARGEST + 1), 0) | {n: i + 1 for i, n in enumerate(NUMBERS)}
_FIFTY_NINE = {n: IGNORE if i == 0 else i - 1 for n, i in _SIXTY.items()}

_read_mat = partial(read_mat, key="LabelMap")
read_60_mat = LabelReader(label_table(_SIXTY, LARGEST + 1), _read_mat)
read_59_mat = LabelReader(label_table(_FIFTY_NINE, LARGEST + 1), _read_mat)
read_60_png = LabelReader(in_order(60))
read_59_png = LabelReader(in_order(59, first=1, void=(0, IGNORE)))


def pcontext_root(root: Path) -> Path:
    return find_root(root, INFO_60.title, ("JPEGImages",), ("VOCdevkit", "VOC2010"))


def open_pcontext(root: Path, split: str) -> FileDataset:
    return _open(root, split, INFO_60, read_60_png, read_60_mat)


def open_pcontext59(root: Path, split: str) -> FileDataset:
    return _open(root, split, INFO_59, read_59_png, read_59_mat)


def _open(
    root: Path, split: str, info: DatasetInfo, from_png: LabelReader, from_mat: LabelReader
) -> FileDataset:
    home = pcontext_root(root)
    images = need_folder(home / "JPEGImages")
    prepared = home / LISTS / f"{split}.txt"
    if prepared.exists():  # it is written last, so the PNGs are complete
        labels, suffix, read = need_folder(home / PNGS), ".png", from_png
        names = read_ids(prepared)
    elif (home / MATS).is_dir():
        labels, suffix, read = need_folder(home / MATS), ".mat", from_mat
        names = read_ids(home / f"ImageSets/Main/{split}.txt", "It comes with VOC 2010.")
    else:
        raise DataError(
            f"no labels in {home}: expected {JSON} (then run `reconet data prepare pcontext`) or "
            f"the folder {MATS} with .mat files."
        )
    pairs = [Pair(name, images / f"{name}.jpg", labels / f"{name}{suffix}") for name in names]
    return FileDataset(info=info, split=split, pairs=pairs, read_label=read)
