"""Turn the numbers in masks into labels, by a table.

A table has an entry for every number that a file can hold: a label, IGNORE, or ILLEGAL. So a
number outside the class list is found while reading, with its file and its pixel count.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from reconet.data.images.read import read_mask
from reconet.errors import DataError
from reconet.system.readable import counted
from reconet.types import IGNORE, Label

ILLEGAL = 254


class IllegalLabelError(DataError):
    """A mask holds labels outside the class list. `counts` has the pixels of each such value."""

    def __init__(self, message: str, counts: Mapping[int, int] | None = None) -> None:
        super().__init__(message, counts)  # both: errors travel between processes by their args
        self.counts = counts or {}

    def __str__(self) -> str:
        return str(self.args[0])


def label_table(classes: Mapping[int, int], size: int = 256) -> NDArray[np.uint8]:
    """Make the table in which number n means label classes[n], and all others are ILLEGAL."""
    table_n = np.full(size, ILLEGAL, np.uint8)
    for number, index in classes.items():
        table_n[number] = index
    return table_n


def in_order(count: int, first: int = 0, void: Iterable[int] = (IGNORE,)) -> NDArray[np.uint8]:
    """Make the table of `count` classes, numbered from `first` on. Numbers in `void` are void."""
    void_to_ignore = dict.fromkeys(void, IGNORE)
    return label_table(void_to_ignore | {first + index: index for index in range(count)})


@dataclass(frozen=True, eq=False)
class LabelReader:
    """Reads masks, and looks their numbers up in a table. Can be sent to a worker."""

    table_n: NDArray[np.uint8]
    read: Callable[[Path], NDArray[Any]] = read_mask

    def __call__(self, path: Path) -> Label:
        number_hw = self.read(path)
        if number_hw.ndim != 2:
            raise DataError(f"{path} holds an array of shape {number_hw.shape}, not a mask.")
        label_hw = self._look_up(path, number_hw)
        if (label_hw == ILLEGAL).any():
            raise self._illegal(path, number_hw[label_hw == ILLEGAL])
        return label_hw

    def _look_up(self, path: Path, number_hw: NDArray[Any]) -> Label:
        if number_hw.dtype == np.uint8 and self.table_n.size == 256:
            return np.asarray(cv2.LUT(number_hw, self.table_n), np.uint8)  # faster than take
        outside_hw = (number_hw < 0) | (number_hw >= self.table_n.size) | (number_hw % 1 != 0)
        if outside_hw.any():
            raise self._illegal(path, number_hw[outside_hw])
        return self.table_n.take(number_hw.astype(np.intp))

    def _illegal(self, path: Path, number_n: NDArray[Any]) -> IllegalLabelError:
        counts = count_values(number_n)
        most = list(counts.items())[:3]
        worst = ", ".join(f"{value} ({counted(count, 'pixel')})" for value, count in most)
        more = f" and {counted(len(counts) - 3, 'other value')}" if len(counts) > 3 else ""
        legal = ranges(np.flatnonzero(self.table_n != ILLEGAL).tolist())
        return IllegalLabelError(
            f"{path} holds labels outside the classes: {worst}{more}; legal: {legal}.", counts
        )


def count_values(value_hw: NDArray[Any], most: int | None = None) -> dict[int, int]:
    """Count the pixels of each number in a mask, or of each colour. The most frequent come first.

    `most` limits how many are told: a photograph has thousands of colours.
    """
    if value_hw.dtype == np.uint8:  # many times faster than unique
        pixels_n = np.bincount(value_hw.ravel(), minlength=256)
        values_n = np.flatnonzero(pixels_n)
        pixels_n = pixels_n[values_n]
    else:
        values_n, pixels_n = np.unique(value_hw, return_counts=True)
    order_n = np.argsort(-pixels_n, kind="stable")[:most]
    return dict(zip(values_n[order_n].tolist(), pixels_n[order_n].tolist(), strict=True))


def ranges(numbers: list[int]) -> str:
    """Shorten numbers for a message: [0, 1, 2, 255] becomes "0..2, 255"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{p[0]}..{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)
