"""What a format makes of a folder: images with labels, classes, and what could not be read."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sys import float_info
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reconet.data.formats.draw import Drawing, Part, SegmentFile
from reconet.data.formats.tree import LONGEST, Tree, such_as
from reconet.data.images.read import MAX_PIXELS, read_mask
from reconet.data.sets.folder_classes import VOID_NAMES
from reconet.errors import DataError
from reconet.system.progress import Progress
from reconet.types import Label

BACKGROUND = "background"
BACKGROUND_NAMES = (BACKGROUND, "_background_", "__background__", "bg")
VOIDS = (*VOID_NAMES, "__ignore__", "_ignore_")
MOST_PARTS = 100_000  # of one image


class LabelledImage(NamedTuple):
    """An image of the folder, with what draws its labels, or with its mask."""

    image: Path  # relative to the folder
    labels: Drawing | SegmentFile | Path
    split: str = ""  # train, val or test, if something tells


@dataclass(frozen=True, kw_only=True)
class OwnData:
    """A folder as one format reads it."""

    folder: Path
    images: Sequence[LabelledImage] = ()  # none if `options` tell all
    options: Mapping[str, Any] = field(default_factory=dict)  # of the dataset `folder`
    notes: tuple[str, ...] = ()  # what was left out, and why


class PredictedImage(NamedTuple):
    """An image with the mask that a network has predicted for it."""

    name: str  # where it is below the folder of the images: sub/street.jpg
    path: Path
    stem: str  # of the files that are written for it: sub/street
    mask: Path

    def labels(self) -> Label:
        """Read the predicted labels."""
        return read_mask(self.mask)


class WrittenClass(NamedTuple):
    """A class that is written. Formats count without the background."""

    number: int
    label: int
    name: str
    colour: str  # such as #804080


def regions_of(
    label_hw: Label, classes: Iterable[WrittenClass]
) -> Iterator[tuple[WrittenClass, NDArray[np.bool_]]]:
    """Yield the pixels of each class that is there."""
    for one in classes:
        inside_hw = label_hw == one.label
        if inside_hw.any():
            yield one, inside_hw


class TextFile(NamedTuple):
    """A file of labels, in a folder of its format."""

    name: str
    text: str


# (images, classes, folder that the files will be in) -> files
Encode = Callable[[Iterable[PredictedImage], Sequence[WrittenClass], Path], Iterator[TextFile]]


class Format(NamedTuple):
    """One way in which people keep labels. The functions are in a file of its own."""

    title: str
    recognise: Callable[[Tree], str | None]  # what tells that a folder has this format
    read: Callable[[Tree, Progress], OwnData]
    drawn: bool = True  # masks are drawn once and kept in the cache
    encode: Encode | None = None  # writes predictions, to be corrected in a tool


class Reading:
    """What a format has read of a folder so far."""

    def __init__(self, tree: Tree, *, smaller_on_top: bool = False) -> None:
        self.folder = tree.folder
        self.images: list[LabelledImage] = []
        self.declared: list[str] = []  # names of classes, in their order
        self._smaller_on_top = smaller_on_top
        self._left_out: dict[str, list[str]] = {}

    def leave_out(self, reason: str, where: str) -> None:
        """Count what is left out, to be told in a few lines. Names may hold anything."""
        self._left_out.setdefault(reason, []).append(" ".join(where.split())[:LONGEST])

    def add(
        self, image: Path, source: Path, size: tuple[int, int], parts: Sequence[Part], split: str
    ) -> None:
        """Add an image with its regions, which the file `source` tells."""
        place = str(self.folder / source)
        if len(parts) > MOST_PARTS:
            raise DataError(
                f"{place}, {image} has {len(parts):,} regions, more than {MOST_PARTS:,}."
            )
        drawing = Drawing(place, *size, parts, {}, self._smaller_on_top)
        self.images.append(LabelledImage(image, drawing, split))

    def notes(self) -> list[str]:
        """Return a line for each reason why something was left out."""
        return [
            f"left out: {reason}: {len(places):,} ({such_as(places)})"
            for reason, places in self._left_out.items()
        ]


def check_size(height: object, width: object, where: str) -> tuple[int, int]:
    """Return height and width of an image as a file tells them, or raise."""
    if (
        isinstance(height, int)
        and isinstance(width, int)
        and min(height, width) > 0
        and height * width <= MAX_PIXELS
    ):
        return int(height), int(width)
    raise DataError(f"{where}: {repr(width)[:20]} x {repr(height)[:20]} is no size of an image.")


def check_ring(values: object, where: str) -> list[float]:
    """Return the coordinates of a polygon, x, y, x, y, ..., or raise."""
    if not isinstance(values, list | tuple) or len(values) % 2:
        raise DataError(f"{where}: a polygon is a list x, y, x, y, ... of numbers.")
    for value in values:
        if type(value) not in (int, float) or not abs(value) <= float_info.max:
            raise DataError(f"{where}: {str(value)[:40]!r} is no coordinate.")
    return [float(value) for value in values]


def check_points(values: object, where: str) -> list[float]:
    """Return the coordinates of a list of points [x, y], or raise."""
    if not isinstance(values, list):
        raise DataError(f"{where}: there are no points.")
    rings = [check_ring(point, where) for point in values]
    if any(len(ring) != 2 for ring in rings):
        raise DataError(f"{where}: a point is a list x, y.")
    return [value for ring in rings for value in ring]


def check_name(name: object, where: str) -> str:
    """Return the name of a class on one line, or raise."""
    if not isinstance(name, str) or not name.strip() or len(name) > 200:
        raise DataError(f"{where}: {str(name)[:40]!r} is no name of a class.")
    return " ".join(name.split())


def check_dict(value: object, where: str) -> dict[str, Any]:
    """Return an object of a json file, or raise."""
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected an object with names, got {str(value)[:40]!r}.")
    return value
