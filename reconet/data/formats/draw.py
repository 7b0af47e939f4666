"""Draw what annotations describe into labels, and outline labels.

A pixel belongs to a polygon if its centre lies inside. Edges may have any number of decimals, and
a polygon along the edges of pixels gives exactly these pixels. A region knows only the patch of
the image that it covers, so that hundreds of small objects are cheap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from reconet.data.images.read import MAX_PIXELS, read_image, turn_upright
from reconet.errors import DataError
from reconet.types import IGNORE, Label

FARTHEST = 1e7  # pixels from the corner: no point is meant to be there
MOST_CROSSINGS = 2**24  # of the edges of one polygon with rows of pixels
NO_AREA = 2**32 - 1  # larger than any
SOME_ROWS = 64
COARSE, FINE = 1.25, 0.75  # of the tolerance: together they move hardly a pixel farther
DECIMALS = 2  # of a corner that is not on the grid of pixels
STRAIGHT = 0.1  # sine of the turn below which two sides have no corner
SOME_CROSSINGS = 2**18  # that are in memory together
MALFORMED = (
    KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, MemoryError,
)  # fmt: skip
Bools = NDArray[np.bool_]


class Place:
    """A place in a file. What is malformed in the block is reported as an error of that place."""

    def __init__(self, source: Path | str, where: str = "") -> None:
        self.name = f"{source}, {where}" if where else str(source)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(error, MALFORMED):
            raise DataError(f"{self.name}: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"there is no {str(error)[:100]}"
    if isinstance(error, ValueError | DataError):
        return " ".join(str(error).split())[:200].rstrip(".")
    return f"it is not as expected ({' '.join(str(error).split())[:100]})"


class Patch(NamedTuple):
    """A part of an image, and which of its pixels are inside."""

    top: int
    left: int
    inside_hw: Bools


class Region:
    """An area of an image. It must be picklable, and its values plain."""

    @property
    def end(self) -> tuple[float, float]:
        """Return the largest x and y, if that is known without drawing."""
        return 0, 0

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels of the region in an image of this size."""
        raise NotImplementedError


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
    labels: dict[str, int]  # of each name of a part; 0 in no part
    smaller_on_top: bool = False
    turn: int = 1  # EXIF orientation of the image, if it was labelled as it is stored

    @property
    def used(self) -> set[str]:
        """Return the names of its parts."""
        return {part.name for part in self.parts}


class SegmentFile(NamedTuple):
    """A PNG in which a colour is the number of a segment, as COCO's panoptic files are."""

    path: Path
    height: int
    width: int
    names: dict[int, str]  # of segments; others are void
    labels: dict[str, int]
    turn: int = 1

    @property
    def used(self) -> set[str]:
        """Return the names of its segments."""
        return set(self.names.values())


@dataclass(frozen=True, slots=True)
class Polygons(Region):
    """The union of some polygons, each a list x, y, x, y, ... Holes need run lengths."""

    rings: Sequence[Sequence[float]]

    @property
    def end(self) -> tuple[float, float]:
        """Return the largest x and y."""
        return max(max(r[::2]) for r in self.rings), max(max(r[1::2]) for r in self.rings)

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels whose centres lie in one of the polygons."""
        if len(self.rings) == 1:
            return fill_polygon(self.rings[0], height, width)
        inside_hw = np.zeros((height, width), np.bool_)
        for ring in self.rings:
            patch = fill_polygon(ring, height, width)
            window(inside_hw, patch)[patch.inside_hw] = True
        return Patch(0, 0, inside_hw)


def draw(what: Drawing | SegmentFile) -> Label:
    """Draw the labels of one image, or raise an error that names file, element and reason."""
    label_hw = _draw_segments(what) if isinstance(what, SegmentFile) else _draw_parts(what)
    return turn_upright(label_hw[..., None], what.turn)[..., 0]


def _draw_parts(drawing: Drawing) -> Label:
    """Draw regions over each other, one at a time: a file of 4 kB may have thousands of them.

    If smaller ones lie on top, a pixel remembers the area of what it shows. Of equal ones the later
    is on top.
    """
    label_hw = np.zeros((drawing.height, drawing.width), np.uint8)
    area_hw = np.full_like(label_hw, NO_AREA, np.uint32) if drawing.smaller_on_top else None
    for part in sorted(drawing.parts, key=lambda part: not part.below):
        try:
            patch = part.region.patch(drawing.height, drawing.width)
        except (DataError, *MALFORMED) as error:
            raise DataError(f"{drawing.source}, {part.where}: {_reason(error)}.") from error
        if area_hw is not None:
            area = np.uint32(np.count_nonzero(patch.inside_hw) + part.below * MAX_PIXELS)
            there_hw = window(area_hw, patch)
            np.logical_and(patch.inside_hw, there_hw >= area, out=patch.inside_hw)
            there_hw[patch.inside_hw] = area
        window(label_hw, patch)[patch.inside_hw] = drawing.labels[part.name]
        del patch  # before the next one is made
    return label_hw


def window(array_hw: NDArray[Any], patch: Patch) -> NDArray[Any]:
    """Return the part of an array that a patch covers."""
    height, width = patch.inside_hw.shape
    return array_hw[patch.top : patch.top + height, patch.left : patch.left + width]


def _draw_segments(what: SegmentFile) -> Label:
    """Look up the segment of each pixel. Segments that the json does not name are void."""
    image_hwc = read_image(what.path)
    if image_hwc.shape[:2] != (what.height, what.width):
        raise DataError(f"{what.path} is not {what.width} x {what.height} pixels large.")
    label_hw = np.empty(image_hwc.shape[:2], np.uint8)
    for top in range(0, what.height, SOME_ROWS):  # a few, for numbers take a lot of memory
        red_hw, green_hw, blue_hw = np.moveaxis(image_hwc[top : top + SOME_ROWS], 2, 0)
        number_hw = red_hw + np.int32(256) * green_hw + np.int32(65536) * blue_hw
        numbers_n, place_hw = np.unique(number_hw, return_inverse=True)
        label_n = [
            what.labels[what.names[number]] if number in what.names else IGNORE
            for number in numbers_n.tolist()
        ]
        label_hw[top : top + SOME_ROWS] = np.array(label_n, np.uint8)[
            place_hw.reshape(red_hw.shape)
        ]
    return label_hw


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
        return Patch(0, 0, np.zeros((0, 0), np.bool_))
    slope_n = (x1_n - x0_n) / np.where(y1_n == y0_n, 1, y1_n - y0_n)
    top, left = int(first_n[rows_n > 0].min()), int(x0_n.min().clip(0, width))
    rows, columns = int(last_n.max()) - top, int(np.ceil(x0_n.max()).clip(0, width)) - left
    odd_hw = np.zeros((rows, columns + 1), np.bool_)
    parts_n = np.flatnonzero(np.diff(np.cumsum(rows_n) // SOME_CROSSINGS)) + 1
    for edges_n in np.split(np.arange(len(rows_n)), parts_n):
        edge_c = np.repeat(edges_n, rows_n[edges_n])
        start_n = np.cumsum(rows_n[edges_n]) - rows_n[edges_n]
        row_c = np.arange(len(edge_c)) + np.repeat(first_n[edges_n] - start_n, rows_n[edges_n])
        x_c = x0_n[edge_c] + (row_c + 0.5 - y0_n[edge_c]) * slope_n[edge_c]
        column_c = np.ceil(x_c - 0.5).clip(left, left + columns).astype(np.int64)
        place_c = (row_c - top) * (columns + 1) + column_c - left
        place_n, times_n = np.unique(place_c, return_counts=True)
        odd_hw.ravel()[place_n] ^= times_n % 2 == 1
    np.logical_xor.accumulate(odd_hw, axis=1, out=odd_hw)
    return Patch(top, left, odd_hw[:, :columns])


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
    if not degrees:
        return region
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    rings = [np.asarray(ring, np.float64).reshape(-1, 2) - (x, y) for ring in region.rings]
    return Polygons([(ring @ turn.T + (x, y)).ravel().tolist() for ring in rings])


def outlines(inside_hw: Bools, tolerance: float = 0) -> Iterator[NDArray[Any]]:
    """Yield a ring of x, y along the edges of pixels for each connected area.

    With a tolerance, in pixels, its sides are straight where they differ by no more than this.

    OpenCV follows the pixels of an edge. Where each is doubled, these tell the corners between
    them. As formats without holes need it, a line runs from the outline to the first hole, from
    there to the next one, and all the way back. It has no slope and encloses no centre of a pixel.
    """
    doubled_hw = inside_hw.astype(np.uint8).repeat(2, 0).repeat(2, 1)
    found, tree = cv2.findContours(doubled_hw, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    exact: list[NDArray[Any]] = [(np.asarray(ring[:, 0], np.int32) + 1) // 2 for ring in found]
    rings = [_simple(ring, tolerance) for ring in exact] if tolerance else exact
    links = np.asarray(tree, np.int32).reshape(-1, 4) if rings else ()
    for ring_n2, link in zip(rings, links, strict=True):
        hole, parent = link[2:].tolist()
        if parent >= 0:
            continue
        if hole >= 0:
            nearest = np.abs(ring_n2 - rings[hole][0]).sum(1).argmin()
            ring_n2 = np.roll(ring_n2, -nearest, axis=0)
        there, back = [ring_n2, ring_n2[:1]], []
        while hole >= 0:
            bend_12 = np.stack([there[-1][:, 0], rings[hole][:1, 1]], 1)
            back += [there[-1], bend_12]
            there += [bend_12, rings[hole], rings[hole][:1]]
            hole = int(links[hole][0])
        ring_n2 = np.concatenate([*there, *back[::-1]])
        yield ring_n2[(ring_n2 != np.roll(ring_n2, 1, axis=0)).any(1)]


def _simple(ring_n2: NDArray[np.int32], tolerance: float) -> NDArray[np.float64]:
    """Replace the steps of a ring by straight sides, if an area remains.

    OpenCV tells which middles of the edges of pixels are on one side. The sides are fitted to
    them, and a corner is where two sides meet, unless that is far from the middles.
    """
    side_n2 = np.roll(ring_n2, -1, axis=0) - ring_n2
    length_n = np.abs(side_n2).sum(1)
    start_m = np.repeat(np.cumsum(length_n) - length_n, length_n)
    along_m = (np.arange(len(start_m)) - start_m + 0.5) / np.repeat(length_n, length_n)
    middle_m2 = np.repeat(ring_n2, length_n, 0) + along_m[:, None] * np.repeat(side_n2, length_n, 0)
    place = {(x, y): index for index, (x, y) in enumerate(middle_m2.tolist())}
    kept = _without_near(middle_m2, COARSE * tolerance).tolist()
    places = sorted(place[x, y] for x, y in kept)
    if len(places) < 3:
        return ring_n2.astype(np.float64)
    ends = [*places[1:], places[0] + len(middle_m2)]
    lines = [
        _fit(middle_m2.take(range(start, end + 1), 0, mode="wrap"))
        for start, end in zip(places, ends, strict=True)
    ]
    corners = []
    for index, before, after in zip(places, [lines[-1], *lines[:-1]], lines, strict=True):
        turn_22 = np.stack([before[0], -after[0]], 1)
        corner = middle_m2[index]
        if abs(np.linalg.det(turn_22)) > STRAIGHT:
            meets = before[1] + before[0] * np.linalg.solve(turn_22, after[1] - before[1])[0]
            corner = meets if np.abs(meets - corner).max() <= tolerance + 0.5 else corner
        corners.append(corner)
    fewer_n2 = _without_near(np.stack(corners), FINE * tolerance).round(DECIMALS)
    return fewer_n2 if len(fewer_n2) > 2 else ring_n2.astype(np.float64)


def _without_near(point_n2: NDArray[np.float64], most: float) -> NDArray[np.float64]:
    """Leave out points that are near a line between others."""
    fewer = cv2.approxPolyDP(point_n2[:, None].astype(np.float32), most, True)
    return np.asarray(fewer[:, 0], np.float64)


def _fit(point_n2: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fit a line to points: its direction, and a point of it. Ends belong to other sides too."""
    point_n2 = point_n2[1:-1] if len(point_n2) > 3 else point_n2
    line = cv2.fitLine(point_n2.astype(np.float32), cv2.DIST_L2, 0, 0.01, 0.01).ravel()
    return np.asarray(line[:2], np.float64), np.asarray(line[2:], np.float64)
