"""What a format gets and gives, and what becomes of the regions that it has read.

A format recognises a `Tree`, and gathers labelled images in a `Reading`. Its result numbers the
classes, and turns photographs and labels upright.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from sys import float_info
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reconet.data.classes import BACKGROUND
from reconet.data.formats.draw import Drawing, Part, SegmentFile, outlines
from reconet.data.formats.tree import LONGEST, Tree, such_as
from reconet.data.images.read import MAX_PIXELS, Frame, read_frame, read_mask
from reconet.data.sets.folder_masks import VOID_NAMES
from reconet.errors import DataError
from reconet.system.progress import Progress
from reconet.system.readable import counted
from reconet.types import IGNORE, MAX_CLASSES, Label

BACKGROUND_NAMES = (BACKGROUND, "_background_", "__background__", "bg")
VOIDS = (*VOID_NAMES, "__ignore__", "_ignore_")
VERSION = 2  # raise it when drawings of the same annotations change
MOST_PARTS = 100_000  # of one image
SLOPPY = 0.05  # of a side: how far people draw beyond an image


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

    @cached_property
    def digest(self) -> str:
        """Hash all that masks and lists depend on: where the folder is, too."""
        place = self.folder.absolute()
        hasher = blake2b(repr((VERSION, place, self.options)).encode(), digest_size=10)
        for one in self.images:
            parts = one.labels.parts if isinstance(one.labels, Drawing) else ()
            times = []
            for source in (one.labels, *(part.region for part in parts)):
                with suppress(OSError, AttributeError):  # a file is read when it is drawn
                    status = source.path.stat()  # type: ignore[union-attr]
                    times.append((status.st_size, status.st_mtime_ns))
            hasher.update(repr((one, times)).encode())
        return hasher.hexdigest()


class PredictedImage(NamedTuple):
    """An image with the mask that a network has predicted for it."""

    name: str  # where it is below the folder of the images: sub/street.jpg
    path: Path
    stem: str  # of the files that are written for it: sub/street
    mask: Path
    tolerance: float = 0  # pixels by which outlines may differ

    def labels(self) -> Label:
        """Read the predicted labels."""
        return read_mask(self.mask)


class WrittenClass(NamedTuple):
    """A class that is written. Formats count without the background."""

    number: int
    label: int
    name: str
    colour: str  # such as #804080


TextFile = tuple[str, str]  # its name in the folder of its format, and its content
# (images, classes, folder that the files will be in) -> files
Encode = Callable[[Iterable[PredictedImage], Sequence[WrittenClass], Path], Iterator[TextFile]]


class Format(NamedTuple):
    """One way in which people keep labels. The functions are in a file of its own."""

    title: str
    recognise: Callable[[Tree], str | None]  # what tells that a folder has this format
    read: Callable[[Tree, Progress], OwnData]
    encode: Encode | None = None  # writes predictions, to be corrected in a tool


def regions_of(
    label_hw: Label, classes: Iterable[WrittenClass]
) -> Iterator[tuple[WrittenClass, NDArray[np.bool_]]]:
    """Yield the pixels of each class that is there."""
    for one in classes:
        inside_hw = label_hw == one.label
        if inside_hw.any():
            yield one, inside_hw


def rings_of(
    label_hw: Label, classes: Iterable[WrittenClass], tolerance: float = 0
) -> Iterator[tuple[WrittenClass, NDArray[Any]]]:
    """Yield the outline of each connected area."""
    for one, inside_hw in regions_of(label_hw, classes):
        for ring_n2 in outlines(inside_hw, tolerance):
            yield one, ring_n2


class Reading:
    """What a format has read of a folder so far."""

    def __init__(self, tree: Tree, *, smaller_on_top: bool = False) -> None:
        self.folder = tree.folder
        self.images: dict[Path, LabelledImage] = {}
        self.declared: list[str] = []  # names of classes, in their order
        self.notes: list[str] = []
        self._smaller_on_top = smaller_on_top
        self._sources: dict[Path, str] = {}
        self._left_out: dict[str, list[str]] = {}

    def leave_out(self, reason: str, where: object) -> None:
        """Count what is left out, to be told in a few lines. Names may hold anything."""
        self._left_out.setdefault(reason, []).append(" ".join(str(where).split())[:LONGEST])

    def declare(self, names: Sequence[str], source: Path) -> None:
        """Take the names of the classes of a file. Those of one name are one class."""
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice:
            self.notes.append(f"merged: classes of one name in {source} ({such_as(twice)})")
        self.declared += names

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
        self.add_labels(image, place, drawing, split)

    def add_labels(
        self, image: Path, source: str, labels: Drawing | SegmentFile, split: str
    ) -> None:
        """Add an image with its labels, once."""
        if image in self.images:
            other = self._sources[image]
            both = (
                f"{other} labels twice" if source == other else f"{source} and {other} both label"
            )
            raise DataError(f"{both} {image}: keep one of them.")
        self._sources[image] = source
        self.images[image] = LabelledImage(image, labels, split)

    def result(self, sources: Iterable[Path]) -> OwnData:
        """Return what was read from these files. There must be some."""
        source = " and ".join(str(self.folder / path) for path in sources)
        notes = self.notes + [
            f"left out: {reason}: {len(places):,} ({such_as(places)})"
            for reason, places in self._left_out.items()
        ]
        if not self.images:
            raise DataError(f"{source} labels no image that is in {self.folder}. {' '.join(notes)}")
        images, upright, turned = stand_upright(self.folder, [*self.images.values()])
        labels, classes, unused = _number(images, self.declared)
        notes += turned
        if set(classes) <= {BACKGROUND}:
            raise DataError(f"{source} has no region with a class. {' '.join(notes)}")
        if unused:
            told = counted(len(unused), "class", "classes")
            notes.append(f"left out: {told} that nothing uses ({such_as(unused)})")
        return OwnData(
            folder=self.folder,
            images=[
                one._replace(labels=one.labels._replace(labels=labels))
                for one in images
                if not isinstance(one.labels, Path)
            ],
            options={"classes": classes, **upright},
            notes=tuple(notes),
        )


def _number(
    images: Sequence[LabelledImage], declared: Sequence[str]
) -> tuple[dict[str, int], list[str], list[str]]:
    """Return the label of each name, the classes, and the names that nothing uses.

    The order is that of the declaration, then of the alphabet. Regions called void or ignore are
    void. Pixels in no region are background, label 0.
    """
    used = {name for one in images if not isinstance(one.labels, Path) for name in one.labels.used}
    names = list(dict.fromkeys([*declared, *sorted(used)]))
    grounds = [name for name in names if name.lower() in BACKGROUND_NAMES]
    voids = [name for name in names if name.lower() in VOIDS]
    own = [name for name in names if name not in (*grounds, *voids)]
    grounded = used & {*grounds} or any(isinstance(one.labels, Drawing) for one in images)
    classes = [BACKGROUND] * bool(grounded) + [name for name in own if name in used]
    if len(classes) > MAX_CLASSES:
        raise DataError(
            f"there are {len(classes)} classes, and labels of 8 bits tell at most {MAX_CLASSES}: "
            "join rare ones, or leave some out."
        )
    labels = dict.fromkeys(grounds, 0) | dict.fromkeys(voids, IGNORE)
    labels |= {name: label for label, name in enumerate(classes) if name in own}
    in_use = {name: label for name, label in labels.items() if name in used}
    return in_use, classes, [name for name in own if name not in used]


def stand_upright(
    folder: Path, images: Sequence[LabelledImage]
) -> tuple[list[LabelledImage], dict[str, bool], list[str]]:
    """Turn photographs and their labels upright, as labelling tools and `predict` show them.

    Return the images, options of the dataset `folder`, and notes.

    The sizes of quarter turns tell how all were labelled: upright, or as they are stored. If they
    tell nothing, it was upright. So it was if regions leave the stored photographs: some programs
    write stored sizes beside upright coordinates, as Label Studio does in COCO. Drawings of stored
    pixels are turned with their photographs. Mask files of stored pixels are not turned, and
    neither are their photographs.
    """
    turned: dict[Path, Frame] = {}
    stored, upright, leaving = [], [], False  # images whose sizes tell
    for image, labels, _ in images:
        try:
            frame = read_frame(folder / image)
            if frame.turn == 1:
                continue
            turned[image] = frame
            if isinstance(labels, Path):
                size = read_frame(labels).stored
            else:
                size = labels.height, labels.width
        except DataError:
            continue  # the check of the data will tell
        if frame.stored != frame.upright and size == frame.stored:
            stored.append(image)
            leaving |= isinstance(labels, Drawing) and _leaves(labels)
        elif frame.stored != frame.upright and size == frame.upright:
            upright.append(image)
    stored = [] if leaving else stored
    if stored and upright:
        raise DataError(
            f"the labels of {folder / stored[0]} fit the photograph as it is stored, and "
            f"those of {folder / upright[0]} as its EXIF orientation turns it: keep the two "
            "kinds in different folders."
        )
    if not turned:
        return list(images), {}, []
    who = counted(len(turned), "photograph has", "photographs have") + " an EXIF orientation"
    if stored and any(isinstance(one.labels, Path) for one in images):
        note = f"{who}: not turned, for the masks fit the photographs as they are stored"
        return list(images), {}, [note]
    why = "as sizes tell" if upright else "for sizes do not tell"
    told = f"and labels are taken as drawn upright, {'as regions tell' if leaving else why}"
    if stored:
        told = "and so are the labels, which fit them as they are stored"
    placed = [_placed(one, turned.get(one.image), bool(stored)) for one in images]
    return placed, {"upright": True}, [f"{who}: turned upright, {told}"]


def _leaves(drawing: Drawing) -> bool:
    """Return whether regions lie far outside of their image, and would fit a turned one."""
    ends = [part.region.end for part in drawing.parts]
    x, y = max((x for x, _ in ends), default=0), max((y for _, y in ends), default=0)
    height, width = drawing.height * (1 + SLOPPY), drawing.width * (1 + SLOPPY)
    return (x > width or y > height) and x <= height and y <= width


def _placed(one: LabelledImage, frame: Frame | None, stored: bool) -> LabelledImage:
    """Give a drawing the size and the turn of its photograph, as it was labelled."""
    if frame is None or isinstance(one.labels, Path):
        return one
    labels, size = one.labels, frame.stored if stored else frame.upright
    if sorted(size) == sorted((labels.height, labels.width)):
        labels = labels._replace(height=size[0], width=size[1])
    return one._replace(labels=labels._replace(turn=frame.turn if stored else 1))


def check_size(height: Any, width: Any) -> tuple[int, int]:
    """Return height and width of an image as a file tells them, or raise."""
    known = type(height) is int and type(width) is int
    if known and min(height, width) > 0 and height * width <= MAX_PIXELS:
        return height, width
    raise ValueError(f"{repr(width)[:20]} x {repr(height)[:20]} is no size of an image")


def check_ring(values: object, least: int = 0) -> list[float]:
    """Return the coordinates x, y, x, y, ... of a polygon, also of a list of points, or raise."""
    if not isinstance(values, list | tuple):
        raise ValueError("there are no points")
    if values and isinstance(values[0], list | tuple):
        if any(not isinstance(point, list | tuple) or len(point) != 2 for point in values):
            raise ValueError("a point is a list x, y")
        values = [value for point in values for value in point]
    if len(values) % 2:
        raise ValueError("a polygon is a list x, y, x, y, ... of numbers")
    for value in values:
        if type(value) not in (int, float) or not abs(value) <= float_info.max:
            raise ValueError(f"{str(value)[:40]!r} is no coordinate")
    if len(values) < 2 * least:
        raise ValueError(f"there are fewer than {least} points")
    return [float(value) for value in values]


def check_name(name: object) -> str:
    """Return the name of a class on one line, or raise."""
    if not isinstance(name, str) or not name.strip() or len(name) > 200:
        raise ValueError(f"{str(name)[:40]!r} is no name of a class")
    return " ".join(name.split())
