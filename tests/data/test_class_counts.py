from pathlib import Path

import cv2
import numpy as np
import pytest

from reconet.data import open_dataset
from reconet.data.class_counts import count_classes
from reconet.data.dataset import Dataset
from reconet.errors import DataError
from tests.factories import ProgressRecorder

CLASSES = ("grass", "cow", "sky")


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    rng = np.random.default_rng(0)
    for name in ("images/train", "masks/train"):
        (tmp_path / name).mkdir(parents=True)
    for number in range(4):
        label_hw = rng.choice([0, 1, 255], (5, 7)).astype(np.uint8)
        cv2.imwrite(str(tmp_path / f"images/train/{number}.png"), np.zeros((5, 7, 3), np.uint8))
        cv2.imwrite(str(tmp_path / f"masks/train/{number}.png"), label_hw)
    return open_dataset("folder", "train", tmp_path, {"classes": list(CLASSES)})


def test_the_pixels_of_each_class_are_counted_without_void(dataset: Dataset) -> None:
    labels = [label for i in range(4) for label in dataset[i].label_hw.reshape(-1).tolist()]
    counts = count_classes(dataset).tolist()
    assert counts == [labels.count(0), labels.count(1), 0]
    parts = count_classes(dataset, [0, 2]) + count_classes(dataset, [1, 3])
    assert parts.tolist() == counts


def test_a_mask_that_cannot_be_read_is_named(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "masks/train/2.png").write_bytes(b"no mask")
    with pytest.raises(DataError, match=r"2\.png"):
        count_classes(dataset)
    progress = ProgressRecorder()
    rest = count_classes(dataset, on_error="skip", progress=progress)
    assert rest.tolist() == count_classes(dataset, [0, 1, 3]).tolist()
    assert any("2.png" in line for line in progress.lines)
