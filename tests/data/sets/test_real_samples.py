"""Genuine samples of the datasets, where they lie beside the repository."""

from pathlib import Path

import numpy as np
import pytest

from reconet.data import DATASETS, open_dataset
from reconet.data.prepare.instances import read_json
from reconet.data.sets.coco import CATEGORIES, plan_coco
from reconet.types import IGNORE

SAMPLES = Path(__file__).parents[4] / "shared/data"
pytestmark = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason="no samples of real datasets beside the repository"
)
CASES = [
    ("voc12", "train"),
    ("voc12", "trainaug"),
    ("voc12", "val"),
    ("ade20k", "train"),
    ("ade20k", "val"),
    ("cocostuff", "train"),
    ("cocostuff", "val"),
    ("camvid", "train"),
    ("camvid", "val"),
]


@pytest.mark.parametrize(("name", "split"), CASES)
def test_real_samples_are_read(name: str, split: str) -> None:
    dataset = open_dataset(name, split, SAMPLES / name)
    assert 0 < len(dataset) <= (dataset.info.splits[split] or 0)  # a part, or all of it
    pixels_n = np.zeros(256, np.int64)
    for index in range(0, len(dataset), max(1, len(dataset) // 12)):
        pixels_n += np.bincount(dataset[index].label_hw.ravel(), minlength=256)
    assert pixels_n[: len(dataset.info.classes)].sum() > pixels_n[IGNORE] > 0
    assert not pixels_n[len(dataset.info.classes) : IGNORE].any()


def test_the_official_aug_labels_are_the_official_labels() -> None:
    train, aug = (open_dataset("voc12", s, SAMPLES / "voc12") for s in ("train", "trainaug"))
    place = {aug.name(index): index for index in range(len(aug))}
    for index in range(0, len(train), 25):
        sample = train[index]
        np.testing.assert_array_equal(sample.label_hw, aug[place[sample.name]].label_hw)


def test_coco_categories_are_the_classes_of_voc() -> None:
    (categories,) = read_json(SAMPLES / "coco/annotations/instances_val2017.json", "categories")
    name = {category["id"]: category["name"] for category in categories}
    other = {
        "aeroplane": "airplane",
        "diningtable": "dining table",
        "motorbike": "motorcycle",
        "pottedplant": "potted plant",
        "sofa": "couch",
        "tvmonitor": "tv",
    }
    classes = DATASETS["coco"].info.classes[1:]
    assert [name[number] for number in CATEGORIES[1:]] == [other.get(c, c) for c in classes]


def test_coco_samples_can_be_drawn() -> None:
    plan = plan_coco(SAMPLES / "coco")
    assert len(plan.jobs) == 82
