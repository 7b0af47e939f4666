"""SIFT-Flow: 2688 outdoor images of 256 x 256 in 33 classes."""

from functools import partial
from pathlib import Path

from reconet.data.classes import class_names, colour_map
from reconet.data.dataset import DatasetEntry, DatasetInfo, FileDataset, Pair
from reconet.data.images.read import read_mat
from reconet.data.labels import LabelReader, in_order
from reconet.data.layout import files_in, find_root, need_folder, read_ids
from reconet.errors import DataError

CLASSES = class_names(
    """
    awning, balcony, bird, boat, bridge, building, bus, car, cow, crosswalk, desert, door, fence,
    field, grass, moon, mountain, person, plant, pole, river, road, rock, sand, sea, sidewalk, sign,
    sky, staircase, streetlight, sun, tree, window
    """
)
FOLDER = "spatial_envelope_256x256_static_8outdoorcategories"
UNANNOTATED = {"highway_bost181", "street_urb506"}

read_label = LabelReader(in_order(len(CLASSES), first=1, void=(0,)), partial(read_mat, key="S"))


def open_siftflow(root: Path, split: str) -> FileDataset:
    home = find_root(root, SIFTFLOW.info.title, ("Images", "SemanticLabels"), ("SiftFlowDataset",))
    test = read_ids(home / "TestSet1.txt", "It comes with the images.")
    images = files_in(home / "Images" / FOLDER, [".jpg"])
    labels = need_folder(home / "SemanticLabels" / FOLDER)
    if split == "test":
        names = test
    else:
        left_out = UNANNOTATED.union(test)
        names = [image.stem for image in images if image.stem not in left_out]
    if not names:
        raise DataError(f"no images of {split} in {home / 'Images' / FOLDER}.")
    pairs = [
        Pair(name, images[0].with_name(f"{name}.jpg"), labels / f"{name}.mat") for name in names
    ]
    return FileDataset(info=SIFTFLOW.info, split=split, pairs=pairs, read_label=read_label)


SIFTFLOW = DatasetEntry(
    info=DatasetInfo(
        name="siftflow",
        title="SIFT-Flow",
        classes=CLASSES,
        palette=colour_map(len(CLASSES), first=1),
        splits={"train": 2486, "test": 200},
        disjoint=(("train", "test"),),
        layout=(f"Images/{FOLDER}/*.jpg", f"SemanticLabels/{FOLDER}/*.mat", "TestSet1.txt"),
        licence="research; images of LabelMe",
        source="http://www.cs.unc.edu/~jtighe/Papers/ECCV10/ (SiftFlowDataset.zip)",
        notes=(
            f"{' and '.join(sorted(UNANNOTATED))} are not annotated, and left out of train",
            "cow, desert and moon do not occur in test: they are left out of the mean",
            "the RecoNet paper tests on 500 images; no such list is known",
        ),
    ),
    open=open_siftflow,
    absent_classes=("cow", "desert", "moon"),
)
