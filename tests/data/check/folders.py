"""Write small folders of images and masks, right or wrong in one way each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from reconet.data import check, open_dataset
from reconet.recipes import find_recipe
from reconet.types import IGNORE

HEIGHT, WIDTH, BLOCK = 24, 32, 8
ORIENTATION = 0x0112
Mask = NDArray[Any]


@dataclass
class Folder:
    """A folder under construction, which knows the true label of every pixel."""

    root: Path
    truth: dict[str, Mask] = field(default_factory=dict)  # by the name of the image

    def add(
        self,
        name: str,
        mask_hw: Mask,
        truth_hw: Mask | None = None,
        *,
        turn: int = 1,
        suffix: str = ".png",
        size: tuple[int, int] | None = None,
        mode: str | None = None,
    ) -> None:
        """Write an image of noise and its mask. `turn` is the EXIF orientation of the image."""
        height, width = size or mask_hw.shape[:2]
        image = Image.fromarray(noise(name, height, width))
        path = self.root / "images" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        exif = image.getexif()
        if turn != 1:
            exif[ORIENTATION] = turn
        image.save(path, exif=exif)
        self.add_mask(name, mask_hw, suffix, mode)
        self.truth[name] = mask_hw if truth_hw is None else truth_hw

    def add_mask(
        self, name: str, mask_hw: Mask, suffix: str = ".png", mode: str | None = None
    ) -> None:
        path = self.root / "masks" / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        mask = Image.fromarray(mask_hw)
        (mask.convert(mode) if mode else mask).save(path)

    def add_all(self, masks: Sequence[Mask], truth: Sequence[Mask] | None = None) -> None:
        """Write masks a, b, c, ..."""
        for number, mask_hw in enumerate(masks):
            self.add(chr(97 + number), mask_hw, None if truth is None else truth[number])

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def check(self, options: Mapping[str, Any], **more: Any) -> check.CheckReport:
        data = find_recipe("folder/reconet").data
        data = data.model_copy(update={"root": self.root, "options": dict(options)})
        return check.check_dataset(data, workers=0, **more)[0]

    def read(self, options: Mapping[str, Any]) -> dict[str, Mask]:
        """Read all labels of train and val."""
        labels: dict[str, Mask] = {}
        for split in ("train", "val"):
            dataset = open_dataset("folder", split, self.root, options)
            labels |= {dataset.name(i): dataset[i].label_hw for i in range(len(dataset))}
        return labels


def noise(name: str, height: int = HEIGHT, width: int = WIDTH) -> NDArray[np.uint8]:
    rng = np.random.default_rng(list(name.encode()))
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def blocks(values: Sequence[int], shift: int = 0) -> NDArray[np.uint8]:
    """Fill a mask with squares, of which each value has at least one if there are at most 12."""
    rows, columns = HEIGHT // BLOCK, WIDTH // BLOCK
    some = [values[(index + shift) % len(values)] for index in range(rows * columns)]
    grid_hw = np.array(some, np.uint8).reshape(rows, columns)
    return grid_hw.repeat(BLOCK, 0).repeat(BLOCK, 1)


def several(values: Sequence[int], count: int = 6) -> list[NDArray[np.uint8]]:
    return [blocks(values, shift) for shift in range(count)]


def looked_up(masks: Sequence[Mask], meaning: Mapping[int, int]) -> list[Mask]:
    table_n = np.full(256, IGNORE, np.uint8)
    for number, label in meaning.items():
        table_n[number] = label
    return [table_n[mask_hw] for mask_hw in masks]
