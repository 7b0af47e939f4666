"""Write and open folders of images and masks."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconet.data import open_dataset
from reconet.data.dataset import Dataset
from tests.data.trees import HEIGHT, WIDTH, save_jpeg, save_png

CLASSES = ["road", "grass", "sky"]
LABEL = np.zeros((HEIGHT, WIDTH), np.uint8)
LABEL[:, 10:20], LABEL[:, 20:30], LABEL[:, 30:40] = 1, 2, 255


def write_flat(root: Path, names: list[str], label_hw: NDArray[np.uint8] = LABEL) -> None:
    for name in names:
        save_jpeg(root / f"images/{name}.jpg")
        save_png(root / f"masks/{name}.png", label_hw)


def opened(root: Path, split: str = "train", **options: Any) -> Dataset:
    return open_dataset("folder", split, root, {"classes": CLASSES} | options)


def names_of(dataset: Dataset) -> list[str]:
    return [dataset.name(index) for index in range(len(dataset))]
