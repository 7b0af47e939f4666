"""Turn the regions that a format has read into labels: of classes, of photographs upright."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from reconet.data.formats.draw import Drawing, Polygons, Region, RowRuns, Runs, SegmentFile
from reconet.data.formats.labelled import (
    BACKGROUND,
    BACKGROUND_NAMES,
    VOIDS,
    LabelledImage,
    OwnData,
    Reading,
)
from reconet.data.formats.tree import such_as
from reconet.data.images.read import Frame, read_frame
from reconet.errors import DataError
from reconet.system.readable import counted
from reconet.types import IGNORE, MAX_CLASSES

SLOPPY = 0.05  # of a side: how far people draw beyond an image


def drawn_data(found: Reading, sources: Iterable[Path]) -> OwnData:
    """Return what a format of regions has read from these files. There must be some."""
    source, notes = " and ".join(str(found.folder / path) for path in sources), found.notes()
    if not found.images:
        raise DataError(f"{source} labels no image that is in {found.folder}. {' '.join(notes)}")
    _check_once(found.images)
    images, upright, turned = stand_upright(found.folder, found.images)
    notes += turned
    numbered, classes, unused = number_classes(images, found.declared)
    if set(classes) <= {BACKGROUND}:
        raise DataError(f"{source} has no region with a class. {' '.join(notes)}")
    if unused:
        told = counted(len(unused), "class", "classes")
        notes.append(f"left out: {told} that nothing uses ({such_as(unused)})")
    options = {"classes": classes, **upright}
    return OwnData(folder=found.folder, images=numbered, options=options, notes=tuple(notes))


def _check_once(images: Sequence[LabelledImage]) -> None:
    taken: dict[Path, object] = {}
    for one in images:
        source = getattr(one.labels, "source", None) or getattr(one.labels, "path", None)
        if one.image in taken:
            told = dict.fromkeys(map(str, (source, taken[one.image])))
            both = "both label" if len(told) > 1 else "labels twice"
            raise DataError(f"{' and '.join(told)} {both} {one.image}: keep one of them.")
        taken[one.image] = source


def number_classes(
    images: Sequence[LabelledImage], declared: Sequence[str]
) -> tuple[list[LabelledImage], list[str], list[str]]:
    """Give each class a label. Return the images, the classes, and those that nothing uses.

    The order is that of the declaration, then of the alphabet. Regions called void or ignore are
    void. Pixels in no region are background, label 0.
    """
    used: set[str] = set()
    for one in images:
        if isinstance(one.labels, Drawing):
            used.update(part.name for part in one.labels.parts)
        elif isinstance(one.labels, SegmentFile):
            used.update(one.labels.names.values())
    grounded = any(isinstance(one.labels, Drawing) for one in images)
    labels: dict[str, int] = {}
    own: list[str] = []
    unused: list[str] = []
    for name in dict.fromkeys([*declared, *sorted(used)]):
        if name.lower() in VOIDS:
            labels[name] = IGNORE
        elif name.lower() in BACKGROUND_NAMES:
            labels[name] = 0
            grounded |= name in used
        else:
            (own if name in used else unused).append(name)
    classes = [BACKGROUND, *own] if grounded else own
    if len(classes) > MAX_CLASSES:
        raise DataError(
            f"there are {len(classes)} classes, and labels of 8 bits tell at most {MAX_CLASSES}: "
            "join rare ones, or leave some out."
        )
    labels |= {name: classes.index(name) for name in own}
    labels = {name: labels[name] for name in labels if name in used}
    numbered = [
        one._replace(labels=one.labels._replace(labels=labels))
        for one in images
        if not isinstance(one.labels, Path)
    ]
    return numbered, classes, unused


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
    stored, upright, leaving = [], [], []  # images whose sizes tell, or whose regions
    for one in images:
        try:
            frame = read_frame(folder / one.image)
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
    if stored:
        told = "and so are the labels, which fit them as they are stored"
    else:
        why = "as sizes tell" if upright else "for sizes do not tell"
        why = "as regions tell" if leaving else why
        told = f"and labels are taken as drawn upright, {why}"
    placed = [_placed(one, turned.get(one.image), bool(stored)) for one in images]
    return placed, {"upright": True}, [f"{who}: turned upright, {told}"]


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
