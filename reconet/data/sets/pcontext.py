"""PASCAL-Context: the images of VOC 2010 with the whole scene labelled.

The labels come as one .mat per image, with 459 numbers, or as the json of the "detail" API, with
those of the same numbers that belong to the 59 classes of the benchmark. Classes are in the order
of the numbers, which is alphabetical. `reconet data prepare pcontext` turns either into masks.
.mat files can also be read directly.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from reconet.data.classes import class_names, colour_map
from reconet.data.dataset import DatasetEntry, DatasetInfo, ExtraScore, FileDataset, Pair
from reconet.data.images.draw import write_mask
from reconet.data.images.read import read_mat
from reconet.data.labels import LabelReader, in_order, label_table
from reconet.data.layout import find_root, need_folder, read_ids
from reconet.data.prepare import (
    Drawing,
    Job,
    PreparePlan,
    check_written,
    draw_instances,
    read_json,
    write_list,
)
from reconet.errors import DataError
from reconet.types import IGNORE

CLASSES = class_names(
    """
    aeroplane, bag, bed, bedclothes, bench, bicycle, bird, boat, book, bottle, building, bus,
    cabinet, car, cat, ceiling, chair, cloth, computer, cow, cup, curtain, dog, door, fence, floor,
    flower, food, grass, ground, horse, keyboard, light, motorbike, mountain, mouse, person, plate,
    platform, pottedplant, road, rock, sheep, shelves, sidewalk, sign, sky, snow, sofa, table,
    track, train, tree, truck, tvmonitor, wall, water, window, wood
    """
)
# The numbers of the 59 classes among the 459, in the same order.
NUMBERS = (
    *(2, 9, 18, 19, 22, 23, 25, 31, 33, 34, 44, 45, 46, 59, 65, 68, 72, 80, 85, 98),
    *(104, 105, 113, 115, 144, 158, 159, 162, 187, 189, 207, 220, 232, 258, 259, 260, 284),
    *(295, 296, 308, 324, 326, 347, 349, 354, 355, 360, 366, 368, 397, 415, 416, 420, 424),
    *(427, 440, 445, 454, 458),
)
LARGEST = 459
MASKS = "SegmentationClassContext"
MASK_PALETTE = colour_map(256)
LISTS = "ImageSets/SegmentationContext"
MATS = "trainval"
JSON = "trainval_merged.json"
LIST_HINT = "It comes with VOC 2010."

_SIXTY = dict.fromkeys(range(LARGEST + 1), 0) | {n: i + 1 for i, n in enumerate(NUMBERS)}
_FIFTY_NINE = {n: IGNORE if i == 0 else i - 1 for n, i in _SIXTY.items()}

_read_mat = partial(read_mat, key="LabelMap")
read_60_mat = LabelReader(label_table(_SIXTY, LARGEST + 1), _read_mat)
read_59_mat = LabelReader(label_table(_FIFTY_NINE, LARGEST + 1), _read_mat)
read_60_png = LabelReader(in_order(60))
read_59_png = LabelReader(in_order(59, first=1, void=(0, IGNORE)))


def open_pcontext(root: Path, split: str) -> FileDataset:
    return _open(root, split, PCONTEXT.info, read_60_png, read_60_mat)


def open_pcontext59(root: Path, split: str) -> FileDataset:
    return _open(root, split, PCONTEXT59.info, read_59_png, read_59_mat)


def _open(
    root: Path, split: str, info: DatasetInfo, from_png: LabelReader, from_mat: LabelReader
) -> FileDataset:
    home = _home(root)
    images = need_folder(home / "JPEGImages")
    prepared = home / LISTS / f"{split}.txt"
    if prepared.exists():  # it is written last, so the masks are complete
        labels, suffix, read = need_folder(home / MASKS), ".png", from_png
        names = read_ids(prepared)
    elif (home / MATS).is_dir():
        labels, suffix, read = need_folder(home / MATS), ".mat", from_mat
        names = read_ids(home / f"ImageSets/Main/{split}.txt", LIST_HINT)
    else:
        raise DataError(
            f"no labels in {home}: expected {JSON} (then run `reconet data prepare pcontext`) or "
            f"the folder {MATS} with .mat files."
        )
    pairs = [Pair(name, images / f"{name}.jpg", labels / f"{name}{suffix}") for name in names]
    return FileDataset(info=info, split=split, pairs=pairs, read_label=read)


def _home(root: Path) -> Path:
    return find_root(root, PCONTEXT.info.title, ("JPEGImages",), ("VOCdevkit", "VOC2010"))


def plan_pcontext(root: Path, source: Path | None = None) -> PreparePlan:
    """Plan masks of 60 classes from the json if there is one, else from the .mat files.

    `source` is the json, or the folder of .mat files.
    """
    home = _home(root)
    for path in (home / JSON, home / MATS) if source is None else (source,):
        if path.is_dir():
            return _plan_mats(home, path)
        if path.exists():
            return _plan_json(home, path)
    place = source or home
    raise DataError(f"no labels in {place}: expected {JSON}, or the folder {MATS} of .mat files.")


def _plan_json(home: Path, path: Path) -> PreparePlan:
    images, annotations = read_json(path, "images", "annos_segmentation")
    instances: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
    splits: dict[str, list[str]] = {"train": [], "val": []}
    jobs = []
    try:
        for annotation in annotations:
            label = _SIXTY.get(annotation["category_id"], 0)
            instances[annotation["image_id"]].append((label, annotation["segmentation"]))
        for image in images:
            if image["phase"] in splits:
                name = Path(image["file_name"]).stem
                splits[image["phase"]].append(name)
                drawn = instances[image["image_id"]]
                drawing = Drawing(image["height"], image["width"], drawn)
                jobs.append(Job(home / MASKS / f"{name}.png", drawing))
    except KeyError as error:
        raise DataError(f"{path} has an entry without {error}: not of the detail API?") from error
    return PreparePlan(jobs=jobs, work=draw_mask, finish=partial(_finish, home, splits, jobs))


def draw_mask(job: Job) -> None:
    label_hw = draw_instances(job.source, job.target.stem, first_wins=False)
    write_mask(job.target, label_hw, MASK_PALETTE)


def _plan_mats(home: Path, mats: Path) -> PreparePlan:
    need_folder(mats)
    splits = {
        name: read_ids(home / f"ImageSets/Main/{name}.txt", LIST_HINT) for name in ("train", "val")
    }
    names = [*splits["train"], *splits["val"]]
    read_mat(mats / f"{names[0]}.mat", "LabelMap")  # fails here, not in a worker
    jobs = [Job(home / MASKS / f"{name}.png", mats / f"{name}.mat") for name in names]
    return PreparePlan(jobs=jobs, work=convert_mat, finish=partial(_finish, home, splits, jobs))


def convert_mat(job: Job) -> None:
    write_mask(job.target, read_60_mat(job.source), MASK_PALETTE)


def _finish(
    home: Path, splits: Mapping[str, Sequence[str]], jobs: Sequence[Job]
) -> Mapping[str, int]:
    check_written(jobs)
    return {
        split: write_list(home / LISTS / f"{split}.txt", sorted(names))
        for split, names in splits.items()
        if names
    }


MIOU_59 = "mIoU, 59 classes (background not scored)"
MIOU_59_OF_60 = "mIoU, 59 classes x 59/60 (the lineage's habit)"

CONVERTS = ".mat files or the json of the detail API -> mask PNGs"
PCONTEXT = DatasetEntry(
    info=DatasetInfo(
        name="pcontext",
        title="PASCAL-Context, 59 classes and background",
        classes=("background", *CLASSES),
        palette=colour_map(60),
        splits={"train": 4998, "val": 5105},
        disjoint=(("train", "val"),),
        layout=(
            "VOCdevkit/VOC2010/JPEGImages/*.jpg",
            f"VOCdevkit/VOC2010/{JSON}, or {MATS}/*.mat and ImageSets/Main/{{train,val}}.txt",
            f"VOCdevkit/VOC2010/{MASKS}/*.png (made by prepare)",
            f"VOCdevkit/VOC2010/{LISTS}/{{train,val}}.txt (made by prepare)",
        ),
        licence="images under Flickr's terms of use; labels for research",
        source="https://cs.stanford.edu/~roozbeh/pascal-context/ (.mat), the PASCAL in Detail "
        "challenge (json), http://host.robots.ox.ac.uk/pascal/VOC/voc2010/ (images)",
        notes=("classes in alphabetical order", "background is a class and is scored"),
    ),
    open=open_pcontext,
    prepare=plan_pcontext,
    converts=CONVERTS,
    extra_scores={
        "miou_60": ExtraScore("mIoU, 60 classes", lambda scores: scores.mean_iou),
        "miou_59": ExtraScore(MIOU_59, lambda scores: scores.mean_iou_without("background")),
        "miou_59_of_60": ExtraScore(
            MIOU_59_OF_60, lambda scores: scores.mean_iou_without("background") * 59 / 60
        ),
    },
)
PCONTEXT59 = DatasetEntry(
    info=replace(
        PCONTEXT.info,
        name="pcontext59",
        title="PASCAL-Context, 59 classes",
        classes=CLASSES,
        palette=colour_map(59, first=1),
        notes=("classes in alphabetical order", "background is not scored"),
    ),
    open=open_pcontext59,
    prepare=plan_pcontext,
    converts=CONVERTS,
    folder="pcontext",
    # A network that does not know background has no 60-class score.
    extra_scores={
        "miou_59": ExtraScore(MIOU_59, lambda scores: scores.mean_iou),
        "miou_59_of_60": ExtraScore(MIOU_59_OF_60, lambda scores: scores.mean_iou * 59 / 60),
    },
)
