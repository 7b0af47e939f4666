"""ADE20K as in the scene parsing challenge of 2016: 150 classes. Pixels of no class are void."""

from pathlib import Path

import numpy as np

from reconet.data.classes import class_names, colour_map
from reconet.data.dataset import (
    DatasetEntry,
    DatasetInfo,
    ExtraScore,
    FileDataset,
    Pair,
    SubmissionFormat,
)
from reconet.data.images.draw import mask_png
from reconet.data.labels import LabelReader, in_order
from reconet.data.layout import files_in, find_root, need_folder
from reconet.errors import AbsentError

CLASSES = class_names(
    """
    wall, building, sky, floor, tree, ceiling, road, bed, windowpane, grass, cabinet, sidewalk,
    person, earth, door, table, mountain, plant, curtain, chair, car, water, painting, sofa, shelf,
    house, sea, mirror, rug, field, armchair, seat, fence, desk, rock, wardrobe, lamp, bathtub,
    railing, cushion, base, box, column, signboard, chest of drawers, counter, sand, sink,
    skyscraper, fireplace, refrigerator, grandstand, path, stairs, runway, case, pool table, pillow,
    screen door, stairway, river, bridge, bookcase, blind, coffee table, toilet, flower, book, hill,
    bench, countertop, stove, palm, kitchen island, computer, swivel chair, boat, bar, arcade
    machine, hovel, bus, towel, light, truck, tower, chandelier, awning, streetlight, booth,
    television, airplane, dirt track, apparel, pole, land, bannister, escalator, ottoman, bottle,
    buffet, poster, stage, van, ship, fountain, conveyer belt, canopy, washer, plaything, swimming
    pool, stool, barrel, basket, waterfall, tent, bag, minibike, cradle, oven, ball, food, step,
    tank, trade name, microwave, pot, animal, bicycle, lake, dishwasher, screen, blanket, sculpture,
    hood, sconce, vase, traffic light, tray, ashcan, fan, pier, crt screen, plate, monitor, bulletin
    board, shower, radiator, glass, clock, flag
    """
)
FOLDERS = {"train": ("training",), "val": ("validation",), "trainval": ("training", "validation")}
TESTS = ("release_test/testing", "../release_test/testing", "images/testing")

read_label = LabelReader(in_order(len(CLASSES), first=1, void=(0,)))


def open_ade20k(root: Path, split: str) -> FileDataset:
    expected = ("images", "annotations")
    home = find_root(root, ADE20K.info.title, expected, ("ADEChallengeData2016",))
    pairs = _test(home) if split in ADE20K.secret_splits else _labelled(home, FOLDERS[split])
    return FileDataset(info=ADE20K.info, split=split, pairs=pairs, read_label=read_label)


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


ADE20K = DatasetEntry(
    info=DatasetInfo(
        name="ade20k",
        title="ADE20K (SceneParse150)",
        classes=CLASSES,
        palette=colour_map(len(CLASSES), first=1),
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
    ),
    open=open_ade20k,
    extra_scores={
        "challenge": ExtraScore(
            "challenge score, (pixel accuracy + mIoU) / 2",
            lambda scores: (scores.pixel_accuracy + scores.mean_iou) / 2,
        ),
    },
    secret_splits=("test",),
    submission=SubmissionFormat(  # a zip file of masks with one channel, 1..150
        path=".ade20k_{split}.parts/{name}.png",
        encode=lambda label_hw: mask_png(label_hw + np.uint8(1)),
        archive="ade20k_{split}.zip",
    ),
)
