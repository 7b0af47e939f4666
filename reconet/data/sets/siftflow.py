"""SIFT-Flow: 2688 outdoor images of 256 x 256 in 33 classes."""

from functools import partial
from pathlib import Path

from reconet.data.dataset import DatasetInfo, FileDataset, Pair
from reconet.data.images.read import read_mat
from reconet.data.labels import LabelReader, in_order
from reconet.data.layout import files_in, find_root, need_folder, read_ids
from reconet.data.names import SIFT_FLOW, colour_map
from reconet.errors import DataError

FOLDER = "spatial_envelope_256x256_static_8outdoorcategories"
UNANNOTATED = {"highway_bost181", "street_urb506"}

INFO = DatasetInfo(
    name="siftflow",
    title="SIFT-Flow",
    classes=SIFT_FLOW,
    palette=colour_map(len(SIFT_FLOW), first=1),
    splits={"train": 2486, "test": 200},
    disjoint=(("train", "test"),),
    layout=(f"Images/{FOLDER}/*.jpg", f"SemanticLabels/{FOLDER}/*.mat", "TestSet1.txt"),
    licence="research; images of LabelMe",
    source="http://www.cs.unc.edu/~jtighe/Papers/ECCV10/ (SiftFlowDataset.zip)",
    notes=(
        f"{' and '.join(sorted(UNANNOTATED))} are not annotated, and left out of train",
        "cow, desert and moon do not occur in test: leave them out of the mean",
        "the RecoNet paper tests on 500 images; no such list is known",
    ),
)

read_label = LabelReader(in_order(len(SIFT_FLOW), first=1, void=(0,)), partial(read_mat, key="S"))


def open_siftflow(root: Path, split: str) -> FileDataset:
    home = find_root(root, INFO.title, ("Images", "SemanticLabels"), ("SiftFlowDataset",))
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
    return FileDataset(info=INFO, split=split, pairs=pairs, read_label=read_label)
