"""Trace the areas of labels along the edges of pixels, as polygons of one ring.

A ring gives exactly the pixels of its area: their centres lie inside, by the even-odd rule and by
the rule of windings alike. A hole is joined to the outline by a line that runs through the area,
there and back, so that formats without holes can hold it.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from reconet.types import Label

Corner = tuple[int, int]  # x, y
Bools = NDArray[np.bool_]


class Area(NamedTuple):
    """A connected area of one class."""

    label: int
    left: int
    top: int
    inside_hw: Bools  # of the box around it

    def ring(self) -> list[Corner]:
        """Return the outline with its holes joined to it, in pixels of the image."""
        return [(x + self.left, y + self.top) for x, y in trace(self.inside_hw)]


def areas_of(label_hw: Label, label: int) -> Iterator[Area]:
    """Yield the connected areas of a class. Pixels that touch by a corner only are two areas."""
    count, part_hw, boxes, _ = cv2.connectedComponentsWithStats(
        (label_hw == label).astype(np.uint8), connectivity=4
    )
    for part in range(1, count):
        left, top, width, height = boxes[part, :4].tolist()
        inside_hw = part_hw[top : top + height, left : left + width] == part
        yield Area(label, left, top, inside_hw)


def box_of(inside_hw: Bools) -> tuple[int, int, int, int]:
    """Return left, top, width and height of the pixels that are inside. There must be some."""
    rows_n, columns_n = np.flatnonzero(inside_hw.any(1)), np.flatnonzero(inside_hw.any(0))
    left, top = int(columns_n[0]), int(rows_n[0])
    return left, top, int(columns_n[-1]) + 1 - left, int(rows_n[-1]) + 1 - top


def trace(inside_hw: Bools) -> list[Corner]:
    """Follow the edge of a connected area, holes included, as one ring of corners."""
    outline, *holes = sorted(_rings(inside_hw), key=_highest)
    below: dict[Corner, list[list[Corner]]] = defaultdict(list)  # holes by the place above them
    for hole in holes:
        top = min(hole, key=_place)
        start = hole.index(top)
        below[_above(top, inside_hw)].append([*hole[start:], *hole[: start + 1]])
    return _corners(list(_walk(outline, below)))


def _place(corner: Corner) -> Corner:
    return corner[1], corner[0]


def _highest(ring: list[Corner]) -> Corner:
    return min(map(_place, ring))


def _above(corner: Corner, inside_hw: Bools) -> Corner:
    """Return the end of the area straight above a corner. It is on a ring that begins higher."""
    x, y = corner
    while y > 0 and inside_hw[y - 1, x]:
        y -= 1
    return x, y


def _walk(ring: list[Corner], below: dict[Corner, list[list[Corner]]]) -> Iterator[Corner]:
    """Yield the steps of a ring, with a detour to each hole below it, and to those below that."""
    todo = [iter(ring)]
    while todo:
        corner = next(todo[-1], None)
        if corner is None:
            todo.pop()
            continue
        yield corner
        if below.get(corner):
            todo.append(iter([*below[corner].pop(), corner]))


def _rings(inside_hw: Bools) -> list[list[Corner]]:
    """Return all closed lines between inside and outside, in steps of one pixel.

    The inside is on the right of each step. So the outline runs clockwise and holes the other way.
    """
    follow: dict[Corner, list[Corner]] = defaultdict(list)
    padded = np.pad(inside_hw, 1)
    core = padded[1:-1, 1:-1]
    for outer, (x0, y0), (x1, y1) in (
        (padded[:-2, 1:-1], (0, 0), (1, 0)),
        (padded[1:-1, 2:], (1, 0), (1, 1)),
        (padded[2:, 1:-1], (1, 1), (0, 1)),
        (padded[1:-1, :-2], (0, 1), (0, 0)),
    ):
        for y, x in np.argwhere(core & ~outer).tolist():
            follow[x + x0, y + y0].append((x + x1, y + y1))
    rings = []
    while follow:
        ring = [next(iter(follow))]
        while (here := _step(follow, ring)) != ring[0]:
            ring.append(here)
        rings.append(ring)
    return rings


def _step(follow: dict[Corner, list[Corner]], ring: list[Corner]) -> Corner:
    """Take the next step of a ring. Where pixels touch by a corner, turn towards the inside."""
    x, y = ring[-1]
    ends = follow[x, y]
    if len(ends) > 1 and len(ring) > 1:
        before_x, before_y = ring[-2]
        right = (x - (y - before_y), y + (x - before_x))
        ends.sort(key=lambda end: end == right)
    end = ends.pop()
    if not ends:
        del follow[x, y]
    return end


def _corners(ring: list[Corner]) -> list[Corner]:
    """Leave out the steps between corners."""
    point_n2 = np.array(ring)
    before_n2 = point_n2 - np.roll(point_n2, 1, axis=0)
    after_n2 = np.roll(point_n2, -1, axis=0) - point_n2
    turns_n = (np.sign(before_n2) != np.sign(after_n2)).any(1)
    return [(x, y) for x, y in point_n2[turns_n].tolist()]
