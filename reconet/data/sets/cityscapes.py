"""Cityscapes, fine labels: 19 of 34 classes are scored, the others are void.

The files hold "labelIds". The 19 "trainIds" are looked up while reading.
"""

from pathlib import Path

import numpy as np

from reconet.data.dataset import DatasetEntry, DatasetInfo, FileDataset, Pair, SubmissionFormat
from reconet.data.images.draw import mask_png
from reconet.data.labels import LabelReader, label_table
from reconet.data.layout import contents, find_root, need_folder
from reconet.errors import DataError
from reconet.types import IGNORE

# labelId, name, and the official colour; the order is that of the trainIds.
SCORED = (
    (7, "road", (128, 64, 128)),
    (8, "sidewalk", (244, 35, 232)),
    (11, "building", (70, 70, 70)),
    (12, "wall", (102, 102, 156)),
    (13, "fence", (190, 153, 153)),
    (17, "pole", (153, 153, 153)),
    (19, "traffic light", (250, 170, 30)),
    (20, "traffic sign", (220, 220, 0)),
    (21, "vegetation", (107, 142, 35)),
    (22, "terrain", (152, 251, 152)),
    (23, "sky", (70, 130, 180)),
    (24, "person", (220, 20, 60)),
    (25, "rider", (255, 0, 0)),
    (26, "car", (0, 0, 142)),
    (27, "truck", (0, 0, 70)),
    (28, "bus", (0, 60, 100)),
    (31, "train", (0, 80, 100)),
    (32, "motorcycle", (0, 0, 230)),
    (33, "bicycle", (119, 11, 32)),
)
LABEL_IDS = tuple(label_id for label_id, _, _ in SCORED)  # for submissions: trainId -> labelId
IMAGE, LABEL = "_leftImg8bit.png", "_gtFine_labelIds.png"
FOLDERS = {"train": ("train",), "val": ("val",), "trainval": ("train", "val"), "test": ("test",)}

_VOID = dict.fromkeys([*range(34), IGNORE], IGNORE)  # 255 is -1, the licence plate
read_label = LabelReader(
    label_table(_VOID | {label_id: index for index, label_id in enumerate(LABEL_IDS)})
)


def open_cityscapes(root: Path, split: str) -> FileDataset:
    home = find_root(root, CITYSCAPES.info.title, ("leftImg8bit",))
    pairs = [pair for folder in FOLDERS[split] for pair in _pairs(home, folder)]
    return FileDataset(info=CITYSCAPES.info, split=split, pairs=pairs, read_label=read_label)


def _pairs(home: Path, folder: str) -> list[Pair]:
    images = need_folder(home / "leftImg8bit" / folder)
    labels = None if folder in CITYSCAPES.secret_splits else need_folder(home / "gtFine" / folder)
    pairs = []
    for image in sorted(images.glob(f"*/*{IMAGE}")):
        name = image.name.removesuffix(IMAGE)
        pairs.append(Pair(name, image, labels and labels / image.parent.name / f"{name}{LABEL}"))
    if not pairs:
        raise DataError(f"no */*{IMAGE} in {images}; found {contents(images)}.")
    return pairs


CITYSCAPES = DatasetEntry(
    info=DatasetInfo(
        name="cityscapes",
        title="Cityscapes",
        classes=tuple(name for _, name, _ in SCORED),
        palette=tuple(colour for _, _, colour in SCORED),
        splits={"train": 2975, "val": 500, "trainval": 3475, "test": 1525},
        disjoint=(("train", "val"), ("trainval", "test")),
        layout=(
            f"leftImg8bit/{{train,val,test}}/{{city}}/{{city}}_{{seq}}_{{frame}}{IMAGE}",
            f"gtFine/{{train,val}}/{{city}}/{{city}}_{{seq}}_{{frame}}{LABEL}",
        ),
        licence="non-commercial; registration needed",
        source="https://www.cityscapes-dataset.com/ (leftImg8bit_trainvaltest, "
        "gtFine_trainvaltest)",
        notes=("submissions hold labelIds, not the 19 classes",),
    ),
    open=open_cityscapes,
    secret_splits=("test",),
    submission=SubmissionFormat(  # masks with one channel, labelIds
        path="cityscapes_{split}/{name}_pred_labelIds.png",
        encode=lambda label_hw: mask_png(np.array(LABEL_IDS, np.uint8)[label_hw]),
    ),
)
