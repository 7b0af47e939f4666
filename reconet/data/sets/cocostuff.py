"""COCO-Stuff: 80 things and 91 stuff classes.

There are two releases. 10k (v1.1) has .mat files with 0 for unlabelled and classes from 1 to 182.
164k ("stuffthingmaps") has PNGs with one less, and 255 for unlabelled. Eleven numbers were never
used; the others become 0..170, in order.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from reconet.data.classes import class_names, colour_map
from reconet.data.dataset import DatasetEntry, DatasetInfo, FileDataset, Pair
from reconet.data.images.read import read_mat
from reconet.data.labels import LabelReader, label_table
from reconet.data.layout import contents, files_in, find_root, need_folder, read_ids
from reconet.errors import AbsentError, DataError
from reconet.types import IGNORE

CLASSES = class_names(
    """
    person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire
    hydrant, stop sign, parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear,
    zebra, giraffe, backpack, umbrella, handbag, tie, suitcase, frisbee, skis, snowboard, sports
    ball, kite, baseball bat, baseball glove, skateboard, surfboard, tennis racket, bottle, wine
    glass, cup, fork, knife, spoon, bowl, banana, apple, sandwich, orange, broccoli, carrot, hot
    dog, pizza, donut, cake, chair, couch, potted plant, bed, dining table, toilet, tv, laptop,
    mouse, remote, keyboard, cell phone, microwave, oven, toaster, sink, refrigerator, book, clock,
    vase, scissors, teddy bear, hair drier, toothbrush, banner, blanket, branch, bridge,
    building-other, bush, cabinet, cage, cardboard, carpet, ceiling-other, ceiling-tile, cloth,
    clothes, clouds, counter, cupboard, curtain, desk-stuff, dirt, door-stuff, fence, floor-marble,
    floor-other, floor-stone, floor-tile, floor-wood, flower, fog, food-other, fruit,
    furniture-other, grass, gravel, ground-other, hill, house, leaves, light, mat, metal,
    mirror-stuff, moss, mountain, mud, napkin, net, paper, pavement, pillow, plant-other, plastic,
    platform, playingfield, railing, railroad, river, road, rock, roof, rug, salad, sand, sea,
    shelf, sky-other, skyscraper, snow, solid-other, stairs, stone, straw, structural-other, table,
    tent, textile-other, towel, tree, vegetable, wall-brick, wall-concrete, wall-other, wall-panel,
    wall-stone, wall-tile, wall-wood, water-other, waterdrops, window-blind, window-other, wood
    """
)
NEVER_DRAWN = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83, 91}
NUMBERS = [number for number in range(1, 183) if number not in NEVER_DRAWN]
SPLITS_164K = {"train": 118287, "val": 5000}
V10_NAMES = 172  # v1.0 counts "unlabeled" as 1 and has no gaps

read_label_mat = LabelReader(
    label_table({0: IGNORE} | {number: index for index, number in enumerate(NUMBERS)}),
    partial(read_mat, key="S"),
)
read_label_png = LabelReader(
    label_table({IGNORE: IGNORE} | {number - 1: index for index, number in enumerate(NUMBERS)})
)


def open_cocostuff(root: Path, split: str) -> FileDataset:
    home = find_root(root, COCOSTUFF.info.title, ("images", "annotations"))
    if (home / "images/train2017").is_dir() or (home / "images/val2017").is_dir():
        return _open_164k(home, split)
    return _open_10k(home, split)


def _open_164k(home: Path, split: str) -> FileDataset:
    if split not in SPLITS_164K:
        raise AbsentError(f"{home} is COCO-Stuff 164k, with the splits train and val, not {split}.")
    labels = need_folder(home / f"annotations/{split}2017")
    info = replace(COCOSTUFF.info, splits=SPLITS_164K, disjoint=(("train", "val"),))
    pairs = [
        Pair(image.stem, image, labels / f"{image.stem}.png")
        for image in files_in(home / f"images/{split}2017", [".jpg"])
    ]
    return FileDataset(info=info, split=split, pairs=pairs, read_label=read_label_png)


def _open_10k(home: Path, split: str) -> FileDataset:
    if split == "val":
        raise AbsentError(f"{home} is COCO-Stuff 10k, with the splits train and test, not val.")
    images, labels = need_folder(home / "images"), need_folder(home / "annotations")
    names = read_ids(home / f"imageLists/{split}.txt")
    if (labels / f"{names[0]}.mat").exists():
        _refuse_v10(labels / f"{names[0]}.mat")
        suffix, read = ".mat", read_label_mat
    elif (labels / f"{names[0]}.png").exists():
        suffix, read = ".png", read_label_png
    else:
        raise DataError(
            f"no {names[0]}.mat in {labels}, the first of {split}; found {contents(labels)}."
        )
    pairs = [Pair(name, images / f"{name}.jpg", labels / f"{name}{suffix}") for name in names]
    return FileDataset(info=COCOSTUFF.info, split=split, pairs=pairs, read_label=read)


def _refuse_v10(path: Path) -> None:
    """Refuse v1.0: it numbers its classes differently, and its labels would pass unnoticed."""
    try:
        names = read_mat(path, "names")
    except DataError:  # stripped copies have only S; illegal numbers then show it
        return
    if names.size == V10_NAMES:
        raise DataError(
            f"{path} is of COCO-Stuff v1.0, which numbers its classes differently; "
            "get v1.1 (cocostuff-10k-v1.1.zip)."
        )


COCOSTUFF = DatasetEntry(
    info=DatasetInfo(
        name="cocostuff",
        title="COCO-Stuff",
        classes=CLASSES,
        palette=colour_map(len(CLASSES), first=1),
        splits={"train": 9000, "test": 1000, "val": None},
        disjoint=(("train", "test"), ("train", "val")),
        layout=(
            "10k: images/*.jpg, annotations/*.mat, imageLists/{train,test}.txt",
            "164k: images/{train2017,val2017}/*.jpg, annotations/{train2017,val2017}/*.png",
        ),
        licence="labels CC BY 4.0; images under Flickr's terms of use",
        source="https://github.com/nightrome/cocostuff10k and https://github.com/nightrome/cocostuff",
        notes=("10k has the splits train and test, 164k has train and val", "10k must be v1.1"),
    ),
    open=open_cocostuff,
)
