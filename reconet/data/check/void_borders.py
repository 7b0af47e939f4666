"""Measure whether a value in masks looks like void: lines between classes, or a frame of the image.

Where nobody drew, masks often hold 0, or a number after the last class. It then lies between the
regions, which hardly touch each other. A class, however thin, does not part all the others.
"""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

WIDEST = 0.08  # of the shorter side: a line between classes
FRAME = 0.01  # of the shorter side: a frame of the image
LEAST = 2  # pixels of both
MOST = 32  # pixels: wider lines are slow to look for in large masks
MOSTLY = 0.9
SELDOM = 0.1


class VoidBorders(NamedTuple):
    """Counts of one value in one or more masks, which can be added up."""

    pixels: int  # of the value
    lines: int  # of these: in a line, or at the edge of the image
    edges: int  # of these: at the edge of the image
    touching: int  # neighbours with different values, none of them this one
    parted: int  # neighbours of which one has this value, and lies between two other values

    @property
    def look_like_void(self) -> bool:
        """Return whether it frames the images, or is lines that part nearly all other values."""
        if self.edges >= MOSTLY * self.pixels > 0:
            return True
        in_lines = self.lines >= MOSTLY * self.pixels > 0
        between = self.touching + self.parted
        return in_lines and between > 0 and self.touching <= SELDOM * between


def add_up(measures: list[VoidBorders]) -> VoidBorders:
    """Add the counts of several masks."""
    return VoidBorders(*(sum(column) for column in zip(*measures, strict=True)))


def measure_void_borders(number_hw: NDArray[np.uint8], value: int = 0) -> VoidBorders | None:
    """Count where a value lies, or return None if it is not in the mask."""
    value_hw = number_hw == value
    if not value_hw.any():
        return None
    side = min(number_hw.shape)
    reach = min(MOST, max(LEAST, round(WIDEST * side)))
    edge_hw = value_hw & _at_edge(number_hw, max(LEAST, round(FRAME * side)))
    between_hw = value_hw & _between(number_hw, value_hw, reach)
    touching = parted = 0
    for one, other in ((np.s_[:, 1:], np.s_[:, :-1]), (np.s_[1:], np.s_[:-1])):
        differ_hw = number_hw[one] != number_hw[other]
        through_hw = value_hw[one] | value_hw[other]
        touching += int(np.count_nonzero(differ_hw & ~through_hw))
        parted += int(np.count_nonzero(differ_hw & (between_hw[one] | between_hw[other])))
    return VoidBorders(
        pixels=int(np.count_nonzero(value_hw)),
        lines=int(np.count_nonzero(edge_hw | _thin(value_hw, reach))),
        edges=int(np.count_nonzero(edge_hw)),
        touching=touching,
        parted=parted,
    )


def _thin(value_hw: NDArray[np.bool_], widest: int) -> NDArray[np.bool_]:
    """Tell of each pixel whether it lies in no square of the value that is wider than a line."""
    square = np.ones((widest + 1, widest + 1), np.uint8)
    thick_hw = cv2.morphologyEx(value_hw.astype(np.uint8), cv2.MORPH_OPEN, square)
    return np.asarray(value_hw & (thick_hw == 0))


def _between(
    number_hw: NDArray[np.uint8], value_hw: NDArray[np.bool_], reach: int
) -> NDArray[np.bool_]:
    """Tell of each pixel whether two different other values are within reach."""
    window = np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)
    # One more, so that 0 means "no other value here" for the highest, and 255 for the lowest.
    other_hw = np.minimum(number_hw, 253) + np.uint8(1)
    highest_hw = cv2.dilate(np.where(value_hw, np.uint8(0), other_hw), window)
    lowest_hw = cv2.erode(np.where(value_hw, np.uint8(255), other_hw), window)
    return np.asarray((highest_hw > 0) & (highest_hw != lowest_hw))


def _at_edge(number_hw: NDArray[np.uint8], reach: int) -> NDArray[np.bool_]:
    edge_hw = np.ones(number_hw.shape, bool)
    edge_hw[reach:-reach, reach:-reach] = False
    return edge_hw
