"""Trace the areas of labels along the edges of pixels, as exports of polygons need them."""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

Label = NDArray[np.uint8]


class Area(NamedTuple):
    """A connected area of one class."""

    label: int
    ring: list[int]  # x, y, x, y, ... along the edges of pixels
    inside_hw: NDArray[np.bool_]  # without its holes

    @property
    def is_whole(self) -> bool:
        """Return whether the outline has no holes in it."""
        return int(np.count_nonzero(self.inside_hw)) == _enclosed(self.ring)


def outline(inside_hw: NDArray[np.bool_]) -> list[int]:
    """Follow the outer edge of an area, corner by corner."""
    padded = np.pad(inside_hw, 1)
    follow: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for y, x in np.argwhere(padded).tolist():
        sides = (
            ((x, y), (x + 1, y), padded[y - 1, x]),
            ((x + 1, y), (x + 1, y + 1), padded[y, x + 1]),
            ((x + 1, y + 1), (x, y + 1), padded[y + 1, x]),
            ((x, y + 1), (x, y), padded[y, x - 1]),
        )
        for start, end, inner in sides:
            if not inner:
                follow.setdefault(start, []).append(end)
    top = min(follow, key=lambda corner: (corner[1], corner[0]))
    ring, here, before = [top], follow[top].pop(), top
    while here != top:
        ring.append(here)
        nexts = follow[here]
        turn = (here[1] - before[1], before[0] - here[0])  # to the left
        best = min(nexts, key=lambda n: (n[0] - here[0], n[1] - here[1]) != turn)
        nexts.remove(best)
        before, here = here, best
    return [value - 1 for corner in ring for value in corner]


def areas(label_hw: Label) -> list[Area]:
    """Find all connected areas, the largest outline first."""
    found = []
    for label in np.unique(label_hw).tolist():
        count, part_hw = cv2.connectedComponents(
            (label_hw == label).astype(np.uint8), connectivity=4
        )
        for part in range(1, count):
            inside_hw = part_hw == part
            found.append(Area(label, outline(inside_hw), inside_hw))
    return sorted(found, key=lambda area: -_enclosed(area.ring))


def _enclosed(ring: list[int]) -> float:
    x_n, y_n = np.array(ring[::2]), np.array(ring[1::2])
    return abs(float(np.sum(x_n * np.roll(y_n, -1) - y_n * np.roll(x_n, -1)))) / 2
