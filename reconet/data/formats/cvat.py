"""CVAT for images 1.1: annotations.xml with polygons, masks, boxes and ellipses.

A shape with a higher z_order is on top; of equal ones the later. Polylines, points, cuboids and
tags are left out. Pixels in no shape are background. The file is read without entities and
document types, so that a small file cannot unpack to gigabytes. Predictions are written as a mask
for each class, which CVAT's brush corrects.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import cv2
import numpy as np

from reconet.data.formats.draw import (
    Part,
    Patch,
    Place,
    Polygons,
    Region,
    cut,
    ellipse,
    rectangle,
    turned,
)
from reconet.data.formats.reading import (
    Format,
    OwnData,
    PredictedImage,
    Reading,
    TextFile,
    WrittenClass,
    check_name,
    check_ring,
    check_size,
    regions_of,
)
from reconet.data.formats.tree import Tree, split_of_file, split_of_folder
from reconet.data.images.read import MAX_PIXELS
from reconet.data.layout import split_called
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress

AREAS = ("polygon", "mask", "box", "ellipse")
OTHERS = ("polyline", "points", "cuboid", "tag", "skeleton")
HEAD = 2**16


@dataclass(frozen=True, slots=True)
class RowRuns(Region):
    """Run lengths, row by row, within a box."""

    counts: list[int]
    top: int
    left: int
    height: int
    width: int

    @property
    def end(self) -> tuple[float, float]:
        """Return the right and lower edges of the box."""
        return self.left + self.width, self.top + self.height

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels of the runs that lie in the image."""
        if not 0 < self.height * self.width <= MAX_PIXELS or min(self.height, self.width) < 1:
            raise ValueError(f"its box has {self.width} x {self.height} pixels")
        if min(self.counts, default=-1) < 0 or sum(self.counts) != self.height * self.width:
            raise ValueError(f"its run lengths do not fill {self.width} x {self.height} pixels")
        inside_n = np.arange(len(self.counts)) % 2 == 1
        inside_hw = np.repeat(inside_n, self.counts).reshape(self.height, self.width)
        return cut(Patch(self.top, self.left, inside_hw), height, width)


class _Plain(ElementTree.TreeBuilder):
    """Refuses document types, and with them entities."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        """Refuse a document type."""
        raise ValueError("it has a document type or entities, which are not read")


def _files(tree: Tree) -> list[Path]:
    """List the files that begin as those of CVAT do."""
    found = []
    for path in tree.with_suffix(".xml"):
        try:
            head = tree.read(path)[:HEAD]
        except DataError:
            continue
        if b"<annotations" in head:
            found.append(path)
    return found


def recognise(tree: Tree) -> str | None:
    """Look for an xml file whose root is <annotations>, with images in it."""
    found = _files(tree)
    return f"{', '.join(map(str, found))}: <annotations> of CVAT" if found else None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the shapes of all images."""
    files, found = _files(tree), Reading(tree)
    for path in files:
        place = tree.folder / path
        root = _parse(tree, path)
        with Place(place, "label"):
            found.declared += [check_name(label.text) for label in root.iterfind(".//label/name")]
        for element in root.findall("image"):
            name, own = element.get("name", ""), split_called(element.get("subset", ""))
            split = own or split_of_file(path)
            image = tree.find_image(name, path.parent, split)
            if image is None:
                found.leave_out(f"images of {path} that are not there", name)
                continue
            with Place(place, f"image {image}"):
                size = check_size(*(_number(element.get(key)) for key in ("height", "width")))
            parts = [*_parts(element, place, f"image {name!r}", found)]
            ordered = [part for _, part in sorted(parts, key=lambda item: item[0])]
            found.add(image, path, size, ordered, own or split_of_folder(image) or split)
    return found.result(files)


def _parse(tree: Tree, path: Path) -> ElementTree.Element:
    place = tree.folder / path
    try:
        root = ElementTree.fromstring(tree.read(path), ElementTree.XMLParser(target=_Plain()))
    except ElementTree.ParseError as error:
        reason = str(error).partition(":")[0]
        raise DataError(f"{place}, line {error.position[0]}: {reason}.") from error
    except (ValueError, LookupError) as error:  # an unknown encoding
        raise DataError(f"cannot read {place}: {str(error)[:100]}.") from error
    if root.tag != "annotations":
        raise DataError(f"{place} is no file of CVAT: its root is {root.tag[:40]!r}.")
    if root.find("track") is not None:
        raise DataError(f"{place} is of the kind CVAT for video: export it as CVAT for images 1.1.")
    return root


def _parts(
    image: ElementTree.Element, path: Path, name: str, found: Reading
) -> Iterator[tuple[int, Part]]:
    """Yield the shapes of an image, and their z_order."""
    count = 1
    for shape in image:
        where = f"{name}, {shape.tag} {count}"
        if shape.tag in OTHERS:
            found.leave_out(f"{shape.tag} elements, which have no area", where)
        if shape.tag in AREAS:
            with Place(path, where):
                region = _region(shape.tag, shape.attrib)
                part = (
                    int(shape.get("z_order", 0)),
                    Part(check_name(shape.get("label")), region, where),
                )
            yield part
            count += 1


def _number(text: str | None) -> int | str | None:
    return int(text) if text and text.isdecimal() and len(text) < 8 else text


def _region(tag: str, values: Mapping[str, str]) -> Region:
    if tag == "polygon":
        points = [[*map(float, point.split(","))] for point in values["points"].split(";")]
        return Polygons([check_ring(points, least=3)])
    if tag == "mask":
        counts = [int(number) for number in values["rle"].split(",")]
        return RowRuns(counts, *(int(values[key]) for key in ("top", "left", "height", "width")))
    degrees = float(values.get("rotation", 0))
    keys = ("xtl", "ytl", "xbr", "ybr") if tag == "box" else ("cx", "cy", "rx", "ry")
    x, y, right, bottom = check_ring([float(values[key]) for key in keys])
    if tag == "ellipse":
        return turned(ellipse(x, y, right, bottom), degrees, x, y)
    return turned(rectangle(x, y, right, bottom), degrees, (x + right) / 2, (y + bottom) / 2)


def encode(
    images: Iterable[PredictedImage], classes: Sequence[WrittenClass], folder: Path
) -> Iterator[TextFile]:
    """Write one file for all images."""
    labels = [
        f"<label><name>{escape(one.name)}</name><color>{one.colour}</color>"
        "<type>any</type><attributes></attributes></label>"
        for one in classes
    ]
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        "<annotations><version>1.1</version>",
        f"<meta><task><labels>{''.join(labels)}</labels></task></meta>",
    ]
    for number, image in enumerate(images):
        label_hw = image.labels()
        height, width = label_hw.shape
        name = quoteattr(image.name)
        lines.append(f'<image id="{number}" name={name} width="{width}" height="{height}">')
        for one, inside_hw in regions_of(label_hw, classes):
            left, top, wide, tall = cv2.boundingRect(inside_hw.astype(np.uint8))
            inside_n = inside_hw[top : top + tall, left : left + wide].ravel()
            edges_n = np.flatnonzero(np.diff(inside_n, prepend=False))
            runs_n = np.diff(edges_n, prepend=0, append=len(inside_n))  # the first is outside
            lines.append(
                f'<mask label={quoteattr(one.name)} source="auto" occluded="0" z_order="0" '
                f'rle="{", ".join(map(str, runs_n.tolist()))}" '
                f'left="{left}" top="{top}" width="{wide}" height="{tall}"></mask>'
            )
        lines.append("</image>")
    yield "annotations.xml", "\n".join([*lines, "</annotations>\n"])


CVAT = Format("CVAT for images 1.1 (annotations.xml)", recognise, read, encode)
