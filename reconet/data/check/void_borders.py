"""Measure whether 0 in a mask looks like void: a line between classes, or a frame of the image.

Masks of 1..k often hold 0 where nobody drew. Then 0 lies between the regions, which hardly touch
each other. A class 0, however thin, does not part all
the others.
"""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

NEAR = 0.01  # of the shorter side: how far from a border a pixel counts as lying on it
MOSTLY = 0.9
SELDOM = 0.1


class VoidBorders(NamedTuple):
    """Counts of one or more masks, which can be added up."""

    zeros: int  # pixels of 0
    borders: int  # of these: between two other values, or at the edge of the image
    edges: int  # of these: at the edge of the image
    touching: int  # neighbours with different values, none of them 0
    parted: int  # neighbours of which one is 0

    @property
    def look_like_void(self) -> bool:
        """Return whether 0 frames the images, or lies on borders and nearly all borders are 0."""
        if self.edges >= MOSTLY * self.zeros > 0:
            return True
        on_borders = self.borders >= MOSTLY * self.zeros > 0
        return on_borders and self.touching <= SELDOM * (self.touching + self.parted)


def add_up(measures: list[VoidBorders]) -> VoidBorders:
    """Add the counts of several masks."""
    return VoidBorders(*(sum(column) for column in zip(*measures, strict=True)))


def measure_void_borders(number_hw: NDArray[np.uint8]) -> VoidBorders | None:
    """Count where 0 lies, or return None if there is no 0."""
    zero_hw = number_hw == 0
    if not zero_hw.any():
        return None
    reach = max(2, round(NEAR * min(number_hw.shape)))
    window = np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)
    highest_hw = cv2.dilate(number_hw, window)
    lowest_hw = cv2.erode(np.where(zero_hw, np.uint8(255), number_hw), window)
    between_hw = (highest_hw > 0) & (highest_hw != lowest_hw)
    edge_hw = np.ones_like(zero_hw)
    edge_hw[reach:-reach, reach:-reach] = False
    touching = parted = 0
    for one_hw, other_hw in (
        (number_hw[:, 1:], number_hw[:, :-1]),
        (number_hw[1:], number_hw[:-1]),
    ):
        differ_hw = one_hw != other_hw
        through_hw = differ_hw & ((one_hw == 0) | (other_hw == 0))
        parted += int(np.count_nonzero(through_hw))
        touching += int(np.count_nonzero(differ_hw & ~through_hw))
    return VoidBorders(
        zeros=int(np.count_nonzero(zero_hw)),
        borders=int(np.count_nonzero(zero_hw & (between_hw | edge_hw))),
        edges=int(np.count_nonzero(zero_hw & edge_hw)),
        touching=touching,
        parted=parted,
    )
