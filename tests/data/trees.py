"""Write a tiny tree of files for each dataset, in the format of its official release.

`TREES[name](root)` writes it. `expected(name, image)` returns the labels that a dataset must then
give. Where a release needs converting, `make_tree` does that too.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat  # type: ignore[import-untyped]

from reconet.data import DATASETS, Dataset, open_dataset, prepare_dataset
from reconet.data.dataset import FileDataset
from reconet.data.sets.pcontext import NUMBERS

HEIGHT, WIDTH = 40, 56
VOID = 255
Label = NDArray[np.uint8]

FOLDER_CLASSES = ("ground", "tree", "roof")
OPTIONS: dict[str, dict[str, object]] = {
    "folder": {"classes": list(FOLDER_CLASSES)},
    "scenes": {"train": 4, "val": 2, "size": [HEIGHT, WIDTH]},
}
SPLITS: dict[str, dict[str, int]] = {
    "voc12": {"train": 4, "trainaug": 6, "val": 2, "trainval": 6, "test": 1},
    "pcontext": {"train": 4, "val": 2},
    "pcontext59": {"train": 4, "val": 2},
    "cocostuff": {"train": 4, "test": 2},
    "ade20k": {"train": 4, "val": 2, "trainval": 6, "test": 1},
    "siftflow": {"train": 4, "test": 2},
    "cityscapes": {"train": 4, "val": 2, "trainval": 6, "test": 1},
    "coco": {"train": 4, "val": 2},
    "camvid": {"train": 4, "val": 2, "trainval": 6, "test": 2},
    "folder": {"train": 4, "val": 2},
    "scenes": {"train": 4, "val": 2},
}


def drawn(name: str) -> NDArray[np.uint8]:
    rng = np.random.default_rng(crc32(name.encode()))
    coarse_hwc = rng.integers(0, 256, (HEIGHT // 8, WIDTH // 8, 3), np.uint8)
    return coarse_hwc.repeat(8, 0).repeat(8, 1)


def stripes(name: str, classes: int, void: bool = True) -> Label:
    """Draw stripes of seven classes, among them the first and the last, and a void corner."""
    rng = np.random.default_rng(crc32(name.encode()))
    some = [0, classes - 1, *rng.integers(0, classes, 5)]
    label_hw = np.array(some, np.uint8).repeat(WIDTH // 7)[None].repeat(HEIGHT, 0)
    if void:
        label_hw[:6, :10] = VOID
    return label_hw


def expected(dataset: str, name: str) -> Label:
    """Return the labels that a dataset must give for an image of one of these trees."""
    if dataset == "pcontext":
        return stripes(name, 60, void=False)
    if dataset == "pcontext59":
        return stripes(name, 60, void=False) - np.uint8(1)  # background, 0, becomes 255
    no_void = dataset == "coco" or (dataset == "voc12" and name.startswith("2008"))
    classes = FOLDER_CLASSES if dataset == "folder" else DATASETS[dataset].info.classes
    return stripes(name, len(classes), void=not no_void)


def make_tree(dataset: str, root: Path) -> None:
    """Write a tree, and convert what has to be before it can be opened."""
    TREES[dataset](root)
    if dataset in ("voc12", "coco"):
        prepare_dataset(dataset, root, workers=0)


def opened(trees: Path, name: str, split: str) -> Dataset:
    return open_dataset(name, split, trees / name, OPTIONS.get(name))


def first_file(dataset: Dataset) -> Path:
    """Return the first mask of a dataset."""
    assert isinstance(dataset, FileDataset)
    assert dataset.pairs[0].mask is not None
    return dataset.pairs[0].mask


def save_jpeg(path: Path, grey: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(drawn(path.stem)).convert("L" if grey else "RGB").save(path)


def save_png(path: Path, array: NDArray[Any], palette: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(array)
    if palette:
        image.putpalette([value for number in range(256) for value in (number, 255 - number, 7)])
    image.save(path)


def save_mat(path: Path, **variables: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, variables)


def save_list(path: Path, names: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def numbered(label_hw: Label, numbers: list[int], void: int) -> NDArray[np.int64]:
    """Turn labels into the numbers of a release: numbers[i] is class i."""
    table = np.full(256, void)
    table[: len(numbers)] = numbers
    return table[label_hw]


def write_voc12(root: Path) -> None:
    """Write VOC with SBD beside it, whose lists have an image of VOC's train and one of its val."""
    home, sbd = root / "VOCdevkit/VOC2012", root / "benchmark_RELEASE/dataset"
    train = [f"2007_00000{n}" for n in range(4)]
    val, extra, test = ["2007_000010", "2007_000011"], ["2008_000001", "2008_000002"], ["2009_1"]
    for name in [*train, *val, *extra, *test]:
        save_jpeg(home / f"JPEGImages/{name}.jpg")
    for name in [*train, *val]:
        save_png(home / f"SegmentationClass/{name}.png", expected("voc12", name), palette=True)
    for split, names in {"train": train, "val": val, "trainval": train + val, "test": test}.items():
        save_list(home / f"ImageSets/Segmentation/{split}.txt", names)
    wrong = np.full((HEIGHT, WIDTH), 20, np.uint8)  # VOC's own labels must win over this
    for name in [*extra, train[0], val[0]]:
        label_hw = expected("voc12", name) if name in extra else wrong
        save_mat(sbd / f"cls/{name}.mat", GTcls={"Segmentation": label_hw, "CategoriesPresent": 1})
    save_list(sbd / "train.txt", [extra[0], val[0]])
    save_list(sbd / "val.txt", [train[0], extra[1]])


CONTEXT = {"train": [f"2008_00000{n}" for n in range(4)], "val": ["2010_000001", "2010_000002"]}


def write_pcontext(root: Path) -> None:
    """Write the .mat files. Number 1, an accordion, is none of the 59 classes."""
    home = root / "VOCdevkit/VOC2010"
    for split, names in CONTEXT.items():
        save_list(home / f"ImageSets/Main/{split}.txt", names)
        for name in names:
            save_jpeg(home / f"JPEGImages/{name}.jpg")
            number_hw = numbered(expected("pcontext", name), [1, *NUMBERS], 1).astype(np.uint16)
            save_mat(home / f"trainval/{name}.mat", LabelMap=number_hw)


def write_pcontext_json(root: Path) -> None:
    """Write the other source of the same labels."""
    home = root / "VOCdevkit/VOC2010"
    images, annotations = [], []
    for split, names in CONTEXT.items():
        for name in names:
            save_jpeg(home / f"JPEGImages/{name}.jpg")
            size = {"height": HEIGHT, "width": WIDTH}
            number = int(name.replace("_", ""))
            file = {"file_name": f"{name}.jpg", "image_id": number, "phase": split}
            images.append(file | size)
            label_hw = expected("pcontext", name)
            for index in np.unique(label_hw).tolist():
                annotations.append(
                    {
                        "image_id": number,
                        "category_id": [1, *NUMBERS][index],
                        "segmentation": run_length(label_hw == index),
                    }
                )
    content = {"images": images, "annos_segmentation": annotations}
    (home / "trainval_merged.json").write_text(json.dumps(content))


def write_cocostuff(root: Path) -> None:
    """Write the 10k release."""
    gone = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83, 91)
    numbers = [number for number in range(1, 183) if number not in gone]
    splits = {"train": [f"COCO_train2014_{n:012d}" for n in range(4)], "test": ["t_1", "t_2"]}
    for split, names in splits.items():
        save_list(root / f"imageLists/{split}.txt", names)
        for name in names:
            save_jpeg(root / f"images/{name}.jpg")
            number_hw = numbered(expected("cocostuff", name), numbers, 0).astype(np.uint8)
            cells = np.array(["name"] * 183, object)
            save_mat(root / f"annotations/{name}.mat", S=number_hw, names=cells)


def write_ade20k(root: Path) -> None:
    """Write one greyscale image, of which the release has four."""
    home = root / "ADEChallengeData2016"
    for folder, short, count in (("training", "train", 4), ("validation", "val", 2)):
        for number in range(1, count + 1):
            name = f"ADE_{short}_{number:08d}"
            save_jpeg(home / f"images/{folder}/{name}.jpg", grey=number == 2)
            label_hw = expected("ade20k", name) + np.uint8(1)  # void, 255, becomes 0
            save_png(home / f"annotations/{folder}/{name}.png", label_hw)
    save_jpeg(root / "release_test/testing/ADE_test_00000001.jpg")


def write_siftflow(root: Path) -> None:
    folder = "spatial_envelope_256x256_static_8outdoorcategories"
    test = ["coast_1", "street_2"]
    for name in [*test, "coast_3", "coast_4", "street_5", "street_6", "highway_bost181"]:
        save_jpeg(root / f"Images/{folder}/{name}.jpg")
        number_hw = (expected("siftflow", name) + np.uint8(1)).astype(np.int16)
        save_mat(root / f"SemanticLabels/{folder}/{name}.mat", S=number_hw)
    save_list(root / "TestSet1.txt", [f"{folder}\\{name}.jpg" for name in test])


def write_cityscapes(root: Path) -> None:
    numbers = [7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33]
    frames = {"train": ["aachen_1", "aachen_2", "ulm_1", "ulm_2"], "val": ["bonn_1", "bonn_2"]}
    for split, names in (frames | {"test": ["berlin_1"]}).items():
        for name in names:
            stem = f"{split}/{name.split('_')[0]}/{name}"
            save_png(root / f"leftImg8bit/{stem}_leftImg8bit.png", drawn(name))
            label_hw = numbered(expected("cityscapes", name), numbers, 4).astype(np.uint8)
            label_hw[label_hw == 4] = np.arange(np.sum(label_hw == 4)) % 7  # seven kinds of void
            save_png(root / f"gtFine/{stem}_gtFine_labelIds.png", label_hw)


def run_length(mask_hw: NDArray[np.bool_], compressed: bool = True) -> dict[str, object]:
    """Encode a mask in COCO's run lengths, column by column, beginning with those outside."""
    edges = np.flatnonzero(np.diff(mask_hw.T.ravel(), prepend=False, append=~mask_hw.T.ravel()[-1]))
    counts: list[int] = np.diff(edges, prepend=0).tolist()
    plain: dict[str, object] = {"size": list(mask_hw.shape), "counts": counts}
    if not compressed:
        return plain
    from pycocotools import mask  # type: ignore[import-untyped]

    return plain | {"counts": mask.frPyObjects(plain, *mask_hw.shape)["counts"].decode()}


def write_coco(root: Path) -> None:
    """Write stripes as polygons, the last one as a crowd. Later instances lie over them."""
    categories = [0, 5, 2, 16, 9, 44, 6, 3, 17, 62, 21, 67, 18, 19, 4, 1, 64, 20, 63, 7, 72]
    for split, first, count in (("train", 1, 4), ("val", 11, 2)):
        images: list[dict[str, object]] = []
        annotations: list[dict[str, object]] = []
        for number in range(first, first + count + 1):
            name = f"{number:012d}"
            save_jpeg(root / f"{split}2017/{name}.jpg")
            size = {"height": HEIGHT, "width": WIDTH}
            images.append({"id": number, "file_name": f"{name}.jpg"} | size)
            label_hw = expected("coco", name)
            everything = [[0, 0, WIDTH, 0, WIDTH, HEIGHT, 0, HEIGHT]]
            parts: list[tuple[int, object]] = [(38, everything)]  # a kite
            for left in range(0, WIDTH, WIDTH // 7):
                index, right = label_hw[0, left], left + WIDTH // 7
                box = [left, 0, right, 0, right, HEIGHT, left, HEIGHT]
                parts.append((categories[index] if index else 38, [box]))
            last = np.arange(WIDTH) >= WIDTH - WIDTH // 7
            crowd = run_length(np.tile(last, (HEIGHT, 1)), compressed=False)
            parts[-1] = (parts[-1][0], crowd)
            if number == first + count:  # too little of it: 1000 pixels
                parts = [(1, [[0, 0, 25, 0, 25, 40, 0, 40]])]
            for category, segmentation in parts:
                crowded = int(isinstance(segmentation, dict))
                annotation = {"image_id": number, "category_id": category, "iscrowd": crowded}
                annotations.append(annotation | {"segmentation": segmentation})
            label = next(i for i in label_hw[0, ::8].tolist() if i)  # over itself: changes nothing
            left = int(np.flatnonzero(label_hw[0] == label)[0])
            later = [[left, 0, left + 8, 0, left + 8, HEIGHT, left, HEIGHT]]
            other = categories[label % 20 + 1]
            annotations.append({"image_id": number, "category_id": other, "segmentation": later})
        path = root / f"annotations/instances_{split}2017.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"images": images, "annotations": annotations}))


def write_camvid(root: Path) -> None:
    for split, count in (("train", 4), ("val", 2), ("test", 2)):
        for number in range(count):
            name = f"0001TP_{split}{number}"
            save_png(root / f"{split}/{name}.png", drawn(name))
            label_hw = expected("camvid", name)
            label_hw[label_hw == VOID] = 11
            save_png(root / f"{split}annot/{name}.png", label_hw)


def write_folder(root: Path) -> None:
    """Write names with spaces and letters beyond ASCII."""
    names = {"train": ["a b", "größe", "日本", "c.d"], "val": ["e", "f (1)"]}
    for split, some in names.items():
        for name in some:
            save_jpeg(root / f"images/{split}/{name}.jpg")
            save_png(root / f"masks/{split}/{name}.png", expected("folder", name))


TREES: dict[str, Callable[[Path], None]] = {
    "voc12": write_voc12,
    "pcontext": write_pcontext,
    "pcontext59": write_pcontext,
    "cocostuff": write_cocostuff,
    "ade20k": write_ade20k,
    "siftflow": write_siftflow,
    "cityscapes": write_cityscapes,
    "coco": write_coco,
    "camvid": write_camvid,
    "folder": write_folder,
    "scenes": lambda root: None,
}
