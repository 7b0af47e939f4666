"""PASCAL VOC 2012, with the extra training labels of SBD ("trainaug").

`reconet data prepare voc12` converts the labels of SBD and writes the list trainaug.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconet.data.classes import class_names, colour_map
from reconet.data.dataset import DatasetEntry, DatasetInfo, FileDataset, Pair, SubmissionFormat
from reconet.data.images.draw import mask_png, write_mask
from reconet.data.images.read import read_mat
from reconet.data.labels import LabelReader, in_order
from reconet.data.layout import contents, find_root, need_folder, read_ids
from reconet.data.prepare import Job, PreparePlan, check_written, write_list
from reconet.errors import DataError, unknown
from reconet.system.files import write_atomic
from reconet.system.readable import counted
from reconet.system.reading import read_file

CLASSES = class_names(
    """
    background, aeroplane, bicycle, bird, boat, bottle, bus, car, cat, chair, cow, diningtable, dog,
    horse, motorbike, person, pottedplant, sheep, sofa, train, tvmonitor
    """
)
LISTS = "ImageSets/Segmentation"
AUG = "SegmentationClassAug"
SBD_FOLDERS = ("benchmark_RELEASE/dataset", "dataset", "SBD/dataset", "SBD", "sbd/dataset", "sbd")
MASK_PALETTE = colour_map(256)

read_label = LabelReader(in_order(len(CLASSES)))


def open_voc12(root: Path, split: str) -> FileDataset:
    known = {*VOC12.info.splits, *_own_lists(root)}
    if split not in known:
        raise unknown("split of voc12", split, known)
    home = _home(root)
    hint = "Run `reconet data prepare voc12` to make it from SBD." if split == "trainaug" else ""
    names = read_ids(home / LISTS / f"{split}.txt", hint)
    if split == "trainaug":
        _refuse_leak(names, home / LISTS)
    images = need_folder(home / "JPEGImages")
    labels = None if split in VOC12.secret_splits else need_folder(_masks(home, split, names), hint)
    pairs = [
        Pair(name, images / f"{name}.jpg", labels and labels / f"{name}.png") for name in names
    ]
    return FileDataset(info=VOC12.info, split=split, pairs=pairs, read_label=read_label)


def _own_lists(root: Path) -> list[str]:
    """List the names of all lists of images, if there are any."""
    with suppress(DataError):
        return [path.stem for path in (_home(root) / LISTS).glob("*.txt")]
    return []


def _masks(home: Path, split: str, names: list[str]) -> Path:
    """Return the folder of a split's masks. A list of your own takes SBD's where VOC has none."""
    official = home / "SegmentationClass"
    if split in VOC12.info.splits:
        return home / AUG if split == "trainaug" else official
    return official if all((official / f"{name}.png").is_file() for name in names) else home / AUG


def _home(root: Path) -> Path:
    return find_root(root, VOC12.info.title, ("JPEGImages", LISTS), ("VOCdevkit", "VOC2012"))


def _refuse_leak(names: list[str], lists: Path) -> None:
    """Refuse a list that contains a part of val. One with 11,355 names is in circulation."""
    if not (lists / "val.txt").exists():
        return
    shared = set(names) & set(read_ids(lists / "val.txt"))
    if shared:
        raise DataError(
            f"{lists / 'trainaug.txt'} has {counted(len(shared), 'image')} of val, such as "
            f"{min(shared)}: scores would be false. Delete it and run `reconet data prepare voc12`."
        )


def plan_voc12(root: Path, source: Path | None = None) -> PreparePlan:
    """Plan trainaug = (VOC train + SBD train + SBD val) - VOC val.

    Where VOC and SBD both have a label, the one of VOC is used.
    """
    home = _home(root)
    train = set(read_ids(home / LISTS / "train.txt"))
    val = set(read_ids(home / LISTS / "val.txt"))
    sbd = _find_sbd(root, home, source)
    if sbd is None:
        return _plan_list_only(home, train, val)
    extra = {*read_ids(sbd / "train.txt"), *read_ids(sbd / "val.txt")}
    names = sorted((train | extra) - val)
    official, cls = need_folder(home / "SegmentationClass"), need_folder(sbd / "cls")
    jobs = [
        Job(
            home / AUG / f"{name}.png",
            official / f"{name}.png" if name in train else cls / f"{name}.mat",
        )
        for name in names
    ]
    read_mat(cls / f"{min(extra)}.mat", "GTcls")  # fails here, not in a worker
    return PreparePlan(jobs=jobs, work=convert, finish=partial(_finish, home, names, jobs))


def convert(job: Job) -> None:
    """Copy a mask of VOC unchanged, or write a label of SBD in the same format."""
    source: Path = job.source
    if source.suffix == ".png":
        read_label(source)  # a broken file must not be copied
        data = read_file(source)
        write_atomic(job.target, lambda file: file.write(data))
    else:
        write_mask(job.target, read_sbd(source), MASK_PALETTE)


def _segmentation(path: Path) -> NDArray[Any]:
    truth = read_mat(path, "GTcls")
    try:
        return np.asarray(truth[0]["Segmentation"][0])
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} has no GTcls[0].Segmentation[0]: is it of SBD's cls?") from error


read_sbd = LabelReader(read_label.table_n, _segmentation)


def _find_sbd(root: Path, home: Path, source: Path | None) -> Path | None:
    """Find SBD's folder `dataset`: in the source if one is given, or near the root."""
    if source is not None:
        for folder in (source, source / "dataset", source / "benchmark_RELEASE/dataset"):
            if (folder / "cls").is_dir():
                return folder
        raise DataError(f"expected the folder cls of SBD in {source}; found {contents(source)}.")
    for place in (root, home, home.parent, home.parent.parent):
        for name in SBD_FOLDERS:
            if (place / name / "cls").is_dir():
                return place / name
    return None


def _plan_list_only(home: Path, train: set[str], val: set[str]) -> PreparePlan:
    """Plan only the list, for a folder SegmentationClassAug that was downloaded."""
    if not (home / AUG).is_dir():
        raise DataError(
            f"no SBD near {home}: expected the folder benchmark_RELEASE/dataset/cls in "
            f"{home.parent.parent}; if it is elsewhere, pass its place as --source."
        )
    names = sorted({path.stem for path in (home / AUG).glob("*.png")} - val)
    absent = train - set(names)
    if absent:
        raise DataError(
            f"{home / AUG} lacks {counted(len(absent), 'label')} of train, such as {min(absent)}."
        )
    return PreparePlan(jobs=(), work=convert, finish=partial(_finish, home, names, ()))


def _finish(home: Path, names: list[str], jobs: Sequence[Job]) -> Mapping[str, int]:
    check_written(jobs)
    return {"trainaug": write_list(home / LISTS / "trainaug.txt", names)}


VOC12 = DatasetEntry(
    info=DatasetInfo(
        name="voc12",
        title="PASCAL VOC 2012",
        classes=CLASSES,
        palette=colour_map(len(CLASSES)),
        splits={"train": 1464, "trainaug": 10582, "val": 1449, "trainval": 2913, "test": 1456},
        disjoint=(
            *(("train", "val"), ("trainaug", "val")),
            *(("trainval", "test"), ("trainaug", "test")),
        ),
        layout=(
            "VOCdevkit/VOC2012/JPEGImages/*.jpg",
            "VOCdevkit/VOC2012/SegmentationClass/*.png",
            "VOCdevkit/VOC2012/SegmentationClassAug/*.png (made by prepare)",
            "VOCdevkit/VOC2012/ImageSets/Segmentation/{train,trainaug,val,trainval,test}.txt",
            "benchmark_RELEASE/dataset/{cls/*.mat,train.txt,val.txt} (SBD, for prepare)",
        ),
        licence="images under Flickr's terms of use; SBD for research",
        source="http://host.robots.ox.ac.uk/pascal/VOC/voc2012/ and the Semantic Boundaries "
        "Dataset",
        notes=("trainaug = (VOC train + SBD train + SBD val) - VOC val",),
    ),
    open=open_voc12,
    own_lists=True,
    prepare=plan_voc12,
    converts="SBD .mat files and VOC masks -> SegmentationClassAug and the trainaug list",
    secret_splits=("test",),
    submission=SubmissionFormat(  # masks with VOC's colours
        path="results/VOC2012/Segmentation/comp6_{split}_cls/{name}.png",
        encode=lambda label_hw: mask_png(label_hw, MASK_PALETTE),
    ),
)
