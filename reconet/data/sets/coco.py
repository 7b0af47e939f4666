"""MS-COCO 2017 drawn with the classes of PASCAL VOC, as in pretraining for VOC.

`reconet data prepare coco` draws the instances into PNGs and lists the images worth keeping.
"""

from pathlib import Path

from reconet.data.dataset import DatasetInfo, FileDataset, Pair
from reconet.data.layout import find_root, need_folder, read_ids
from reconet.data.names import VOC, colour_map
from reconet.data.sets.voc12 import read_label

# COCO's category for each class of VOC, from background (none) to tvmonitor (tv).
CATEGORIES = (0, 5, 2, 16, 9, 44, 6, 3, 17, 62, 21, 67, 18, 19, 4, 1, 64, 20, 63, 7, 72)
MIN_PIXELS = 1000  # images with no more labelled pixels than this are left out
LABELS = "voc_labels"

INFO = DatasetInfo(
    name="coco",
    title="MS-COCO 2017 with the classes of VOC",
    classes=VOC,
    palette=colour_map(len(VOC)),
    splits={"train": None, "val": None},
    disjoint=(("train", "val"),),
    layout=(
        "{train,val}2017/*.jpg",
        "annotations/instances_{train,val}2017.json",
        f"{LABELS}/{{train,val}}2017/*.png and {LABELS}/{{train,val}}.txt (made by prepare)",
    ),
    licence="labels CC BY 4.0; images under Flickr's terms of use",
    source="https://cocodataset.org/",
    notes=(
        f"only images with more than {MIN_PIXELS} labelled pixels",
        "where instances overlap the first one wins; other categories are background",
    ),
)


def coco_root(root: Path) -> Path:
    return find_root(root, INFO.title, ("annotations",), ("coco",))


def open_coco(root: Path, split: str) -> FileDataset:
    home = coco_root(root)
    hint = "Run `reconet data prepare coco` to make it."
    names = read_ids(home / LABELS / f"{split}.txt", hint)
    images = need_folder(home / f"{split}2017")
    labels = need_folder(home / LABELS / f"{split}2017", hint)
    pairs = [Pair(name, images / f"{name}.jpg", labels / f"{name}.png") for name in names]
    return FileDataset(info=INFO, split=split, pairs=pairs, read_label=read_label)
