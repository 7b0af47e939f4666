"""Masks in which numbers and colours mean something else than they should."""

from collections.abc import Callable
from typing import Any

import numpy as np

from reconet.types import IGNORE
from tests.data.check.folders import (
    HEIGHT,
    WIDTH,
    Folder,
    looked_up,
    one_less,
    several,
    with_borders,
    with_spot,
)


def islands(folder: Folder) -> None:
    """Draw objects that do not touch each other, on a background that is class 0."""
    for number in range(6):
        mask_hw = np.zeros((HEIGHT, WIDTH), np.uint8)
        mask_hw[3:10, 3 + number : 12 + number] = 1
        mask_hw[14:21, 10 + number : 22 + number] = 2
        folder.add(str(number), mask_hw)


def trimap(inner: int, outer: int) -> Callable[[Folder], None]:
    """Draw 1 on 2 with 3 between them, as the masks of Oxford's pets are."""

    def make(folder: Folder) -> None:
        for number in range(6):
            mask_hw = np.full((HEIGHT, WIDTH), 2, np.uint8)
            mask_hw[5:19, 5 + number : 22 + number] = 3
            mask_hw[7:17, 7 + number : 20 + number] = 1
            (truth_hw,) = looked_up([mask_hw], {1: inner, 2: outer})
            folder.add(str(number), mask_hw, truth_hw)

    return make


def empty_class_and_borders(folder: Folder) -> None:
    drawn = several((0, 1))  # in columns
    for mask_hw in drawn:
        for place in range(8, WIDTH, 8):
            mask_hw[:, place - 1 : place + 1] = IGNORE
    folder.add_all(drawn)


def grey(values: tuple[int, ...], labels: tuple[int, ...], mode: str | None = None) -> Any:
    """Write masks of numbers as RGB with red = green = blue."""

    def make(folder: Folder) -> None:
        drawn = several(values)
        truth = looked_up(drawn, dict(zip(values, labels, strict=True)))
        for number, mask_hw in enumerate(drawn):
            folder.add(str(number), np.stack([mask_hw] * 3, -1), truth[number], mode=mode)

    return make


def thin_first_class(*others: int) -> Callable[[Folder], None]:
    """Draw class 0 as a crack through the middle of others."""

    def make(folder: Folder) -> None:
        for number, mask_hw in enumerate(several(others)):
            cracked_hw = mask_hw.copy()
            cracked_hw[3::8] = 0
            folder.add(str(number), cracked_hw)

    return make


def void_borders(folder: Folder) -> None:
    drawn = [with_borders(mask_hw) for mask_hw in several((1, 2, 3))]
    folder.add_all(drawn, one_less(drawn))


def stray(value: int, *values: int) -> Callable[[Folder], None]:
    def make(folder: Folder) -> None:
        drawn = several(values)
        truth = list(drawn)
        drawn[2], truth[2] = with_spot(drawn[2], value), with_spot(drawn[2], IGNORE)
        folder.add_all(drawn, truth)

    return make


def smooth(folder: Folder) -> None:
    """Draw white on black, with grey edges."""
    for number in range(6):
        mask_hw = np.zeros((HEIGHT, WIDTH), np.uint8)
        mask_hw[6:18, 8 + number : 24 + number] = 255
        truth_hw = (mask_hw > 0).astype(np.uint8)
        for place in range(12):
            grey = 5 + 3 * (12 * number + place)
            label = 0 if grey < 64 else 1 if grey >= 192 else IGNORE
            mask_hw[6 + place, 8 + number], truth_hw[6 + place, 8 + number] = grey, label
        folder.add(str(number), mask_hw, truth_hw)


def rare_class_and_strays(folder: Folder) -> None:
    """Draw much void (255), little of class 1, and a few numbers that are mistakes."""
    for number in range(6):
        mask_hw = np.zeros((HEIGHT, WIDTH), np.uint8)
        mask_hw[:6], mask_hw[10, :20] = IGNORE, 1
        truth_hw = mask_hw.copy()
        for place, value in enumerate((90, 120, 150)):
            mask_hw[20, place], truth_hw[20, place] = value, IGNORE
        folder.add(str(number), mask_hw, truth_hw)
