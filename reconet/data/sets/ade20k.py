"""ADE20K as in the scene parsing challenge of 2016: 150 classes, pixels of no class ignored."""

from pathlib import Path

from reconet.data.dataset import DatasetInfo, FileDataset, Pair
from reconet.data.labels import LabelReader, in_order
from reconet.data.layout import files_in, find_root, need_folder
from reconet.data.names import ADE20K, colour_map
from reconet.errors import AbsentError

FOLDERS = {"train": ("training",), "val": ("validation",), "trainval": ("training", "validation")}
TESTS = ("release_test/testing", "../release_test/testing", "images/testing")

INFO = DatasetInfo(
    name="ade20k",
    title="ADE20K (SceneParse150)",
    classes=ADE20K,
    palette=colour_map(len(ADE20K), first=1),
    splits={"train": 20210, "val": 2000, "trainval": 22210, "test": 3352},
    disjoint=(("train", "val"), ("trainval", "test")),
    layout=(
        "ADEChallengeData2016/images/{training,validation}/*.jpg",
        "ADEChallengeData2016/annotations/{training,validation}/*.png",
        "release_test/testing/*.jpg (images of the challenge's test)",
    ),
    licence="non-commercial research and education",
    source="http://sceneparsing.csail.mit.edu/",
    notes=("0 in the files is no class: ignored; 1..150 become 0..149",),
)

read_label = LabelReader(in_order(len(ADE20K), first=1, void=(0,)))


def open_ade20k(root: Path, split: str) -> FileDataset:
    expected = ("images", "annotations")
    home = find_root(root, INFO.title, expected, ("ADEChallengeData2016",))
    pairs = _test(home) if split == "test" else _labelled(home, FOLDERS[split])
    return FileDataset(info=INFO, split=split, pairs=pairs, read_label=read_label)


def _labelled(home: Path, folders: tuple[str, ...]) -> list[Pair]:
    for folder in folders:
        need_folder(home / "annotations" / folder)
    return [
        Pair(image.stem, image, home / "annotations" / folder / f"{image.stem}.png")
        for folder in folders
        for image in files_in(home / "images" / folder, [".jpg"])
    ]


def _test(home: Path) -> list[Pair]:
    for folder in TESTS:
        if (home / folder).is_dir():
            return [Pair(image.stem, image, None) for image in files_in(home / folder, [".jpg"])]
    raise AbsentError(f"no test images: expected the folder release_test/testing in {home}.")
