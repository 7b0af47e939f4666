"""What a format makes of a folder: images with labels, classes, and what could not be read."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from sys import float_info
from typing import Any, NamedTuple, TypeVar

from reconet.data.formats.draw import (
    Drawing,
    Part,
    Polygons,
    Region,
    RowRuns,
    Runs,
    SegmentFile,
)
from reconet.data.formats.tree import Tree, such_as
from reconet.data.images.read import MAX_PIXELS, Frame, read_frame
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
SLOPPY = 0.05  # of a side: how far people draw beyond an image
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
    _check_once(images)
    images, upright = stand_upright(tree, images)
    notes, declared = [*notes, *upright.notes], list(declared)
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
        options={"classes": list(classes), **upright.options},
        notes=tuple(notes),
    )


def _check_once(images: Sequence[LabelledImage]) -> None:
    taken: dict[Path, object] = {}
    for one in images:
        source = getattr(one.labels, "source", None) or getattr(one.labels, "path", None)
        if one.image in taken:
            told = dict.fromkeys(map(str, (source, taken[one.image])))
            both = "both label" if len(told) > 1 else "labels twice"
            raise DataError(f"{' and '.join(told)} {both} {one.image}: keep one of them.")
        taken[one.image] = source


class Upright(NamedTuple):
    """What is told about photographs that EXIF turns."""

    options: dict[str, bool]  # of the dataset `folder`
    notes: tuple[str, ...]


def stand_upright(
    tree: Tree, images: Sequence[LabelledImage]
) -> tuple[list[LabelledImage], Upright]:
    """Turn photographs and their labels upright, as labelling tools and `predict` show them.

    The sizes of quarter turns tell how all were labelled: upright, or as they are stored. If they
    tell nothing, it was upright. So it was if regions leave the stored photographs: some programs
    write stored sizes beside upright coordinates, as Label Studio does in COCO. Drawings of stored
    pixels are turned with their photographs. Mask files of stored pixels are not turned, and
    neither are their photographs.
    """
    turned: dict[Path, Frame] = {}
    stored, upright, leaving = [], [], []  # images whose sizes tell, or whose regions
    for one in images:
        try:
            frame = read_frame(tree.folder / one.image)
            if frame.turn == 1:
                continue
            turned[one.image], size = frame, _size_of(one)
        except DataError:
            continue  # the check of the data will tell
        if frame.stored != frame.upright:
            stored += [one.image] if size == frame.stored else []
            upright += [one.image] if size == frame.upright else []
            leaving += [one.image] if size == frame.stored and _leaves(one) else []
    if leaving:
        stored = []
    if stored and upright:
        raise DataError(
            f"the labels of {tree.folder / stored[0]} fit the photograph as it is stored, and "
            f"those of {tree.folder / upright[0]} as its EXIF orientation turns it: keep the two "
            "kinds in different folders."
        )
    if not turned:
        return list(images), Upright({}, ())
    who = counted(len(turned), "photograph has", "photographs have") + " an EXIF orientation"
    if stored and any(isinstance(one.labels, Path) for one in images):
        note = f"{who}: not turned, for the masks fit the photographs as they are stored"
        return list(images), Upright({}, (note,))
    if stored:
        told = "and so are the labels, which fit them as they are stored"
    else:
        why = "as sizes tell" if upright else "for sizes do not tell"
        why = "as regions tell" if leaving else why
        told = f"and labels are taken as drawn upright, {why}"
    placed = [_placed(one, turned.get(one.image), bool(stored)) for one in images]
    return placed, Upright({"upright": True}, (f"{who}: turned upright, {told}",))


def _leaves(one: LabelledImage) -> bool:
    """Return whether regions lie far outside of their image, and would fit a turned one."""
    if not isinstance(one.labels, Drawing):
        return False
    ends = [_end(part.region) for part in one.labels.parts]
    x, y = max((x for x, _ in ends), default=0), max((y for _, y in ends), default=0)
    height, width = one.labels.height, one.labels.width
    far = x > (1 + SLOPPY) * width or y > (1 + SLOPPY) * height
    return far and x <= (1 + SLOPPY) * height and y <= (1 + SLOPPY) * width


def _end(region: Region) -> tuple[float, float]:
    """Return the largest x and y of a region."""
    if isinstance(region, Polygons):
        x_n, y_n = zip(*((max(ring[::2]), max(ring[1::2])) for ring in region.rings), strict=True)
        return max(x_n), max(y_n)
    if isinstance(region, RowRuns):
        return region.left + region.width, region.top + region.height
    return (region.size[1], region.size[0]) if isinstance(region, Runs) else (0, 0)


def _placed(one: LabelledImage, frame: Frame | None, stored: bool) -> LabelledImage:
    """Give a drawing the size and the turn of its photograph, as it was labelled."""
    if frame is None or isinstance(one.labels, Path):
        return one
    labels, size = one.labels, frame.stored if stored else frame.upright
    if sorted(size) == sorted((labels.height, labels.width)):
        labels = labels._replace(height=size[0], width=size[1])
    return one._replace(labels=labels._replace(turn=frame.turn if stored else 1))


def _size_of(one: LabelledImage) -> tuple[int, int]:
    if isinstance(one.labels, Path):
        return read_frame(one.labels).stored
    return one.labels.height, one.labels.width


def digest_of(own: OwnData) -> str:
    """Hash all that the masks and lists of a folder depend on: where it is, too."""
    facts = [VERSION, own.folder.absolute(), own.options]
    hasher = blake2b(json.dumps(facts, default=str).encode(), digest_size=10)
    for one in own.images:
        hasher.update(json.dumps(_plain(one), default=str).encode())
    return hasher.hexdigest()


def _plain(one: LabelledImage) -> list[object]:
    kinds: list[object] = [str(one.image), one.split, one.labels]
    if not isinstance(one.labels, Path) and one.labels.turn == 1:
        kinds[2] = one.labels[:-1]  # as it was before there were turns
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
