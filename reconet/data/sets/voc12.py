"""PASCAL VOC 2012, with the extra training labels of SBD ("trainaug")."""

from pathlib import Path

from reconet.data.dataset import DatasetInfo, FileDataset, Pair
from reconet.data.labels import LabelReader, in_order
from reconet.data.layout import find_root, need_folder, read_ids
from reconet.data.names import VOC, colour_map
from reconet.errors import DataError

INFO = DatasetInfo(
    name="voc12",
    title="PASCAL VOC 2012",
    classes=VOC,
    palette=colour_map(len(VOC)),
    splits={"train": 1464, "trainaug": 10582, "val": 1449, "trainval": 2913, "test": 1456},
    disjoint=(("train", "val"), ("trainaug", "val"), ("trainval", "test"), ("trainaug", "test")),
    layout=(
        "VOCdevkit/VOC2012/JPEGImages/*.jpg",
        "VOCdevkit/VOC2012/SegmentationClass/*.png",
        "VOCdevkit/VOC2012/SegmentationClassAug/*.png (made by prepare)",
        "VOCdevkit/VOC2012/ImageSets/Segmentation/{train,trainaug,val,trainval,test}.txt",
        "benchmark_RELEASE/dataset/{cls/*.mat,train.txt,val.txt} (SBD, for prepare)",
    ),
    licence="images under Flickr's terms of use; SBD for research",
    source="http://host.robots.ox.ac.uk/pascal/VOC/voc2012/ and the Semantic Boundaries Dataset",
    notes=("trainaug = (VOC train + SBD train + SBD val) - VOC val", "labels of test are secret"),
)
LISTS = "ImageSets/Segmentation"
PREPARE = "Run `reconet data prepare voc12` to make it from SBD."

read_label = LabelReader(in_order(len(VOC)))


def voc12_root(root: Path) -> Path:
    return find_root(root, INFO.title, ("JPEGImages", LISTS), ("VOCdevkit", "VOC2012"))


def open_voc12(root: Path, split: str) -> FileDataset:
    home = voc12_root(root)
    hint = PREPARE if split == "trainaug" else ""
    names = read_ids(home / LISTS / f"{split}.txt", hint)
    if split == "trainaug":
        _refuse_leak(names, home / LISTS)
    images = need_folder(home / "JPEGImages")
    folder = "SegmentationClassAug" if split == "trainaug" else "SegmentationClass"
    labels = None if split == "test" else need_folder(home / folder, hint)
    pairs = [
        Pair(name, images / f"{name}.jpg", labels and labels / f"{name}.png") for name in names
    ]
    return FileDataset(info=INFO, split=split, pairs=pairs, read_label=read_label)


def _refuse_leak(names: list[str], lists: Path) -> None:
    """A list of 11,355 names is in circulation that contains a part of val."""
    if not (lists / "val.txt").exists():
        return
    shared = set(names) & set(read_ids(lists / "val.txt"))
    if shared:
        raise DataError(
            f"{lists / 'trainaug.txt'} has {len(shared)} images of val, such as {min(shared)}: "
            "scores would be false. Delete it and run `reconet data prepare voc12`."
        )
