"""Draw what annotations describe into labels.

A pixel belongs to a polygon if its centre lies inside. Edges may have any number of decimals, and
a polygon along the edges of pixels gives exactly these pixels. A region knows only the patch of
the image that it covers, so that hundreds of small objects are cheap.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reconet.data.images.read import MAX_PIXELS, decode_upright, read_image, read_mask
from reconet.data.prepare.instances import decode
from reconet.errors import DataError, first_line
from reconet.types import IGNORE, Label

FARTHEST = 1e7  # pixels from the corner: no point is meant to be there
MOST_CROSSINGS = 2**24  # of the edges of one polygon with rows of pixels
Bools = NDArray[np.bool_]


class Patch(NamedTuple):
    """A part of an image, and which of its pixels are inside."""

    top: int
    left: int
    inside_hw: Bools


class Region(Protocol):
    """An area of an image. It must be picklable, and plain values inside."""

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels of the region in an image of this size."""
        ...


class Part(NamedTuple):
    """A region with its class, and where it stands in its file."""

    name: str
    region: Region
    where: str
    below: bool = False  # under all others, whatever their sizes


class Drawing(NamedTuple):
    """All regions of one image. Later ones lie over earlier ones, or smaller over larger ones."""

    source: str  # the file, for messages
    height: int
    width: int
    parts: Sequence[Part]
    labels: dict[str, int]  # of each name of a part
    rest: int  # label of the pixels in no region
    smaller_on_top: bool = False


class SegmentFile(NamedTuple):
    """A PNG in which a colour is the number of a segment, as COCO's panoptic files are."""

    path: Path
    height: int
    width: int
    names: dict[int, str]  # of segments; others are void
    labels: dict[str, int]


class Polygons(NamedTuple):
    """The union of some polygons, each a list x, y, x, y, ... Holes need run lengths."""

    rings: Sequence[Sequence[float]]

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels whose centres lie in one of the polygons."""
        found = [fill_polygon(ring, height, width) for ring in self.rings]
        if len(found) == 1:
            return found[0]
        return union([patch for patch in found if patch.inside_hw.size])


class Runs(NamedTuple):
    """COCO's run lengths, column by column, plain or compressed."""

    counts: list[int] | str
    size: list[int]

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels of the runs."""
        inside_hw = decode({"counts": self.counts, "size": self.size}, height, width)
        return Patch(0, 0, inside_hw)


class RowRuns(NamedTuple):
    """Run lengths of CVAT, row by row, within a box."""

    counts: list[int]
    top: int
    left: int
    height: int
    width: int

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels of the runs that lie in the image."""
        if not 0 < self.height * self.width <= MAX_PIXELS or min(self.height, self.width) < 1:
            raise ValueError(f"its box has {self.width} x {self.height} pixels")
        if min(self.counts, default=-1) < 0 or sum(self.counts) != self.height * self.width:
            raise ValueError(f"its run lengths do not fill {self.width} x {self.height} pixels")
        inside_n = np.arange(len(self.counts)) % 2 == 1
        inside_hw = np.repeat(inside_n, self.counts).reshape(self.height, self.width)
        return cut(Patch(self.top, self.left, inside_hw), height, width)


class Stamp(NamedTuple):
    """A small PNG as base64 text, at a place of the image. What is not black is inside."""

    png: str
    top: int
    left: int

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels of the PNG that lie in the image."""
        image_hwc = decode_upright(base64.b64decode(self.png, validate=True), "its mask")
        return cut(Patch(self.top, self.left, np.asarray(image_hwc.any(2))), height, width)


class WhiteIn(NamedTuple):
    """A PNG file, black and white, as large as the image."""

    path: Path

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels that are not black."""
        inside_hw = read_mask(self.path) > 0
        if inside_hw.shape != (height, width):
            raise ValueError(f"{self.path.name} is not {width} x {height} pixels large")
        return Patch(0, 0, inside_hw)


def draw(what: Drawing | SegmentFile) -> Label:
    """Draw the labels of one image, or raise an error that names file, element and reason."""
    return draw_segments(what) if isinstance(what, SegmentFile) else draw_parts(what)


def draw_parts(drawing: Drawing) -> Label:
    """Draw regions over each other."""
    label_hw = np.full((drawing.height, drawing.width), drawing.rest, np.uint8)
    patches: list[tuple[Part, Patch]] = []
    for part in drawing.parts:
        try:
            patch = part.region.patch(drawing.height, drawing.width)
        except (DataError, ValueError, TypeError, OverflowError, MemoryError) as error:
            reason = first_line(error).rstrip(".")
            raise DataError(f"{drawing.source}, {part.where}: {reason}.") from error
        patches.append((part, patch))
    if drawing.smaller_on_top:  # a stable order: of equal areas the later one is on top
        patches.sort(key=lambda item: -int(np.count_nonzero(item[1].inside_hw)))
    patches.sort(key=lambda item: not item[0].below)
    for part, (top, left, inside_hw) in patches:
        height, width = inside_hw.shape
        label_hw[top : top + height, left : left + width][inside_hw] = drawing.labels[part.name]
    return label_hw


def draw_segments(what: SegmentFile) -> Label:
    """Look up the segment of each pixel. Segments that the json does not name are void."""
    red_hw, green_hw, blue_hw = np.moveaxis(read_image(what.path).astype(np.int32), 2, 0)
    if red_hw.shape != (what.height, what.width):
        raise DataError(f"{what.path} is not {what.width} x {what.height} pixels large.")
    numbers_n, place_hw = np.unique(red_hw + 256 * green_hw + 65536 * blue_hw, return_inverse=True)
    label_n = np.array(
        [
            what.labels[what.names[number]] if number in what.names else IGNORE
            for number in numbers_n.tolist()
        ],
        np.uint8,
    )
    return np.asarray(label_n[place_hw].reshape(red_hw.shape), np.uint8)


def fill_polygon(ring: Sequence[float], height: int, width: int) -> Patch:
    """Return the pixels whose centres lie in a polygon, by the even-odd rule.

    Each edge crosses the middles of some rows. Between an odd and an even crossing of a row, from
    left to right, is inside.
    """
    point_n2 = np.asarray(ring, np.float64).reshape(-1, 2)
    if not np.isfinite(point_n2).all() or np.abs(point_n2).max(initial=0) > FARTHEST:
        raise ValueError("its points are not near the image")
    x0_n, y0_n = point_n2.T
    x1_n, y1_n = np.roll(point_n2, -1, axis=0).T
    first_n = np.ceil(np.minimum(y0_n, y1_n) - 0.5).clip(0, height).astype(np.int64)
    last_n = np.ceil(np.maximum(y0_n, y1_n) - 0.5).clip(0, height).astype(np.int64)
    rows_n = last_n - first_n
    total = int(rows_n.sum())
    if total > MOST_CROSSINGS:
        raise ValueError(f"its {len(point_n2):,} points are too many")
    if total == 0:
        return NOTHING
    edge_c = np.repeat(np.arange(len(rows_n)), rows_n)
    start_n = np.cumsum(rows_n) - rows_n
    row_c = first_n[edge_c] + np.arange(total) - start_n[edge_c]
    slope_n = (x1_n - x0_n) / np.where(y1_n == y0_n, 1, y1_n - y0_n)
    x_c = x0_n[edge_c] + (row_c + 0.5 - y0_n[edge_c]) * slope_n[edge_c]
    column_c = np.ceil(x_c - 0.5).clip(0, width).astype(np.int64)
    top, left = int(row_c.min()), int(column_c.min())
    rows, columns = int(row_c.max()) + 1 - top, int(column_c.max()) - left
    place_c = (row_c - top) * (columns + 1) + column_c - left
    crossings_hw = np.bincount(place_c, minlength=rows * (columns + 1)).reshape(rows, columns + 1)
    return Patch(top, left, np.cumsum(crossings_hw, axis=1)[:, :columns] % 2 == 1)


NOTHING = Patch(0, 0, np.zeros((0, 0), np.bool_))


def union(patches: Sequence[Patch]) -> Patch:
    """Join patches to one."""
    if not patches:
        return NOTHING
    top, left = min(p.top for p in patches), min(p.left for p in patches)
    bottom = max(p.top + p.inside_hw.shape[0] for p in patches)
    right = max(p.left + p.inside_hw.shape[1] for p in patches)
    inside_hw = np.zeros((bottom - top, right - left), np.bool_)
    for patch in patches:
        height, width = patch.inside_hw.shape
        y, x = patch.top - top, patch.left - left
        inside_hw[y : y + height, x : x + width] |= patch.inside_hw
    return Patch(top, left, inside_hw)


def cut(patch: Patch, height: int, width: int) -> Patch:
    """Leave out what lies beside the image."""
    top, left, inside_hw = patch
    kept_hw = inside_hw[max(0, -top) : max(0, height - top), max(0, -left) : max(0, width - left)]
    return Patch(max(0, top), max(0, left), kept_hw)


def rectangle(left: float, top: float, right: float, bottom: float) -> Polygons:
    """Return a box as a region."""
    return Polygons([[left, top, right, top, right, bottom, left, bottom]])


def ellipse(x: float, y: float, across: float, down: float, corners: int = 128) -> Polygons:
    """Return an ellipse with these radii as a polygon of many corners."""
    angle_n = np.linspace(0, 2 * np.pi, corners, endpoint=False)
    ring_n2 = np.stack([x + across * np.cos(angle_n), y + down * np.sin(angle_n)], 1)
    return Polygons([ring_n2.ravel().tolist()])


def turned(region: Polygons, degrees: float, x: float, y: float) -> Polygons:
    """Turn polygons clockwise around a point."""
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    rings = [np.asarray(ring, np.float64).reshape(-1, 2) - (x, y) for ring in region.rings]
    return Polygons([(ring @ turn.T + (x, y)).ravel().tolist() for ring in rings])
