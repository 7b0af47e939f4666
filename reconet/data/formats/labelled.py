"""What a format makes of a folder: images with labels, classes, and what could not be read."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from sys import float_info
from typing import Any, NamedTuple, TypeVar

from reconet.data.formats.draw import Drawing, Part, Polygons, SegmentFile
from reconet.data.formats.tree import Tree, such_as
from reconet.data.images.read import MAX_PIXELS
from reconet.data.sets.folder_classes import VOID_NAMES
from reconet.errors import DataError
from reconet.system.progress import Progress
from reconet.system.readable import counted
from reconet.types import IGNORE, MAX_CLASSES

BACKGROUND = "background"
BACKGROUND_NAMES = (BACKGROUND, "_background_", "__background__", "bg")
VOIDS = (*VOID_NAMES, "__ignore__", "_ignore_")
LONGEST = 100  # letters of a name in a message
MOST_PARTS = 100_000  # of one image
VERSION = 1  # raise it when drawings of the same annotations change
T = TypeVar("T")


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


class Format(NamedTuple):
    """One way in which people keep labels. The functions are in a file of its own."""

    title: str
    recognise: Callable[[Tree], str | None]  # what tells that a folder has this format
    read: Callable[[Tree, Progress], OwnData]
    overlaps: str  # what lies on top where regions overlap
    drawn: bool = True  # masks are drawn once and kept in the cache


class LeftOut:
    """Counts what is left out, to be told in a few lines."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def add(self, reason: str, where: str) -> None:
        """Count one thing. Names come from files and may hold anything."""
        self._found.setdefault(reason, []).append(" ".join(where.split())[:LONGEST])

    def notes(self) -> tuple[str, ...]:
        """Return a line for each reason."""
        return tuple(
            f"left out: {reason}: {len(places):,} ({such_as(places)})"
            for reason, places in self._found.items()
        )


def number_classes(
    images: Sequence[LabelledImage], declared: Iterable[str] = ()
) -> tuple[list[LabelledImage], tuple[str, ...]]:
    """Give each class a label, and put the labels into the drawings.

    The order is that of the declaration, then of the alphabet. Names that nothing uses are left
    out. Regions called void or ignore are void. Pixels in no region are background, label 0.
    """
    used: set[str] = set()
    for one in images:
        if isinstance(one.labels, Drawing):
            used.update(part.name for part in one.labels.parts)
        elif isinstance(one.labels, SegmentFile):
            used.update(one.labels.names.values())
    listed = list(dict.fromkeys(declared))
    names = [name for name in [*listed, *sorted(used - set(listed))] if name in used]
    own = [name for name in names if name.lower() not in (*VOIDS, *BACKGROUND_NAMES)]
    fills = any(isinstance(one.labels, Drawing) and one.labels.rest == 0 for one in images)
    grounded = fills or any(name.lower() in BACKGROUND_NAMES for name in names)
    classes = (*((BACKGROUND,) if grounded else ()), *own)
    if len(classes) > MAX_CLASSES:
        raise DataError(f"there are {len(classes)} classes, and at most {MAX_CLASSES} can be told.")
    labels = {name: classes.index(name) for name in own}
    for name in names:
        if name.lower() in BACKGROUND_NAMES:
            labels[name] = 0
    labels |= {name: IGNORE for name in names if name.lower() in VOIDS}
    numbered = [
        one._replace(labels=one.labels._replace(labels=labels))
        if isinstance(one.labels, Drawing | SegmentFile)
        else one
        for one in images
    ]
    return numbered, classes


def drawn_data(
    tree: Tree,
    images: Sequence[LabelledImage],
    declared: Iterable[str],
    notes: Sequence[str],
    source: str,
) -> OwnData:
    """Return what a format of regions has read. There must be some."""
    if not images:
        raise DataError(f"{source} labels no image that is in {tree.folder}. {' '.join(notes)}")
    declared = list(declared)
    numbered, classes = number_classes(images, declared)
    if set(classes) <= {BACKGROUND}:
        raise DataError(f"{source} has no region with a class. {' '.join(notes)}")
    unused = [
        name
        for name in dict.fromkeys(declared)
        if name not in classes and name.lower() not in (*VOIDS, *BACKGROUND_NAMES)
    ]
    if unused:
        told = counted(len(unused), "class", "classes")
        notes = [*notes, f"left out: {told} that nothing uses ({such_as(unused)})"]
    return OwnData(
        folder=tree.folder,
        images=numbered,
        options={"classes": list(classes)},
        notes=tuple(notes),
    )


def digest_of(own: OwnData) -> str:
    """Hash all that the masks and lists of a folder depend on: where it is, too."""
    facts = [VERSION, own.folder.absolute(), own.options]
    hasher = blake2b(json.dumps(facts, default=str).encode(), digest_size=10)
    for one in own.images:
        hasher.update(json.dumps(_plain(one), default=str).encode())
    return hasher.hexdigest()


def _plain(one: LabelledImage) -> list[object]:
    kinds: list[object] = [str(one.image), one.split, one.labels]
    if isinstance(one.labels, Drawing):
        for part in one.labels.parts:
            path = getattr(part.region, "path", None)
            kinds.append([type(part.region).__name__, _file_key(path)])
    elif isinstance(one.labels, SegmentFile):
        kinds.append(_file_key(one.labels.path))
    return kinds


def _file_key(path: Path | None) -> list[int]:
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return []
    return [] if found is None else [found.st_size, found.st_mtime_ns]


def check_size(height: object, width: object, where: str) -> tuple[int, int]:
    """Return height and width of an image as a file tells them, or raise."""
    if isinstance(height, int) and isinstance(width, int) and _fits(height, width):
        return int(height), int(width)
    raise DataError(f"{where}: {repr(width)[:20]} x {repr(height)[:20]} is no size of an image.")


def _fits(height: int, width: int) -> bool:
    return min(height, width) > 0 and height * width <= MAX_PIXELS


def check_ring(values: object, where: str) -> list[float]:
    """Return the coordinates of a polygon, x, y, x, y, ..., or raise."""
    if not isinstance(values, list | tuple) or len(values) % 2:
        raise DataError(f"{where}: a polygon is a list x, y, x, y, ... of numbers.")
    for value in values:
        if type(value) not in (int, float) or not abs(value) <= float_info.max:
            raise DataError(f"{where}: {str(value)[:40]!r} is no coordinate.")
    return [float(value) for value in values]


def check_name(name: object, where: str) -> str:
    """Return the name of a class on one line, or raise."""
    if not isinstance(name, str) or not name.strip() or len(name) > 200:
        raise DataError(f"{where}: {str(name)[:40]!r} is no name of a class.")
    return " ".join(name.split())


def check_parts(parts: Sequence[Part], where: str) -> Sequence[Part]:
    """Return the regions of one image, if they are not too many to draw."""
    if len(parts) > MOST_PARTS:
        raise DataError(f"{where} has {len(parts):,} regions, more than {MOST_PARTS:,}.")
    return parts


def check_dict(value: object, where: str) -> dict[str, Any]:
    """Return an object of a json file, or raise."""
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected an object with names, got {str(value)[:40]!r}.")
    return value


def polygons_of(rings: Sequence[Sequence[float]]) -> Polygons | None:
    """Return the region of some rings. Those with fewer than three points enclose nothing."""
    kept = [ring for ring in rings if len(ring) >= 6]
    return Polygons(kept) if kept else None
