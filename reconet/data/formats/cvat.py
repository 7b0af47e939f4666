"""CVAT for images 1.1: annotations.xml with polygons, masks, boxes and ellipses.

A shape with a higher z_order is on top; of equal ones the later. Polylines, points, cuboids and
tags are left out. Pixels in no shape are background. The file is read without entities and
document types, so that a small file cannot unpack to gigabytes. Predictions are written as a mask
for each class, which CVAT's brush corrects.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import cv2
import numpy as np

from reconet.data.formats.draw import (
    Part,
    Polygons,
    Region,
    RowRuns,
    ellipse,
    rectangle,
    turned,
)
from reconet.data.formats.labelled import (
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
from reconet.data.formats.regions import drawn_data
from reconet.data.formats.tree import SPLITS, Tree, read_bytes, split_of_file, split_of_folder
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress

AREAS = ("polygon", "mask", "box", "ellipse")
OTHERS = ("polyline", "points", "cuboid", "tag", "skeleton")
HEAD = 2**16


class _Plain(ElementTree.TreeBuilder):
    """Refuses document types, and with them entities."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        """Refuse a document type."""
        raise ValueError("it has a document type or entities, which are not read")


def recognise(tree: Tree) -> str | None:
    """Look for an xml file whose root is <annotations>, with images in it."""
    found = _files(tree)
    return f"{', '.join(map(str, found))}: <annotations> of CVAT" if found else None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the shapes of all images."""
    files, found = _files(tree), Reading(tree)
    for path in files:
        place = tree.folder / path
        root = _parse(place)
        for label in root.iterfind(".//label/name"):
            found.declared.append(check_name(label.text, f"{place}, label"))
        for element in root.findall("image"):
            name = element.get("name", "")
            subset = SPLITS.get(element.get("subset", "").lower(), "") or split_of_file(path)
            image = tree.find_image(name, path.parent, subset)
            if image is None:
                found.leave_out(f"images of {path} that are not there", name)
                continue
            height, width = (_number(element.get(key)) for key in ("height", "width"))
            size = check_size(height, width, f"{place}, image {image}")
            parts = [*_parts(element, place, f"image {name!r}", found)]
            ordered = [part for _, part in sorted(parts, key=lambda item: item[0])]
            own = SPLITS.get(element.get("subset", "").lower(), "")
            found.add(image, path, size, ordered, own or split_of_folder(image) or subset)
    return drawn_data(found, files)


def _files(tree: Tree) -> list[Path]:
    """List the files that begin as those of CVAT do."""
    found = []
    for path in tree.with_suffix(".xml"):
        try:
            head = read_bytes(tree.folder / path)[:HEAD]
        except DataError:
            continue
        if b"<annotations" in head:
            found.append(path)
    return found


def _parse(path: Path) -> ElementTree.Element:
    try:
        root = ElementTree.fromstring(read_bytes(path), ElementTree.XMLParser(target=_Plain()))
    except ElementTree.ParseError as error:
        reason = str(error).partition(":")[0]
        raise DataError(f"{path}, line {error.position[0]}: {reason}.") from error
    except (ValueError, LookupError) as error:  # an unknown encoding
        raise DataError(f"cannot read {path}: {str(error)[:100]}.") from error
    if root.tag != "annotations":
        raise DataError(f"{path} is no file of CVAT: its root is {root.tag[:40]!r}.")
    if root.find("track") is not None:
        raise DataError(f"{path} is of the kind CVAT for video: export it as CVAT for images 1.1.")
    return root


def _parts(
    image: ElementTree.Element, path: Path, name: str, found: Reading
) -> Iterator[tuple[int, Part]]:
    """Yield the shapes of an image, and their z_order."""
    count = 1
    for shape in image:
        where = f"{name}, {shape.tag} {count}"
        full = f"{path}, {where}"
        if shape.tag in OTHERS:
            found.leave_out(f"{shape.tag} elements, which have no area", where)
        if shape.tag not in AREAS:
            continue
        try:
            region = _region(shape.tag, shape.attrib, full)
            order = int(shape.get("z_order", 0))
        except KeyError as error:
            raise DataError(f"{full}: there is no {error}.") from error
        except (ValueError, OverflowError) as error:
            raise DataError(f"{full}: {str(error)[:100]}.") from error
        yield order, Part(check_name(shape.get("label"), full), region, where)
        count += 1


def _number(text: str | None) -> int | str | None:
    return int(text) if text and text.isdecimal() and len(text) < 8 else text


def _region(tag: str, values: Mapping[str, str], where: str) -> Region:
    if tag == "polygon":
        pairs = [point.split(",") for point in values["points"].split(";")]
        if any(len(pair) != 2 for pair in pairs) or len(pairs) < 3:
            raise ValueError("a polygon has three or more points x,y")
        ring = [float(number) for pair in pairs for number in pair]
        return Polygons([check_ring(ring, where)])
    if tag == "mask":
        counts = [int(number) for number in values["rle"].split(",")]
        box = [int(values[key]) for key in ("top", "left", "height", "width")]
        return RowRuns(counts, *box)
    degrees = float(values.get("rotation", 0))
    if tag == "box":
        box_ring = [float(values[key]) for key in ("xtl", "ytl", "xbr", "ybr")]
        left, top, right, bottom = check_ring(box_ring, where)
        region, x, y = rectangle(left, top, right, bottom), (left + right) / 2, (top + bottom) / 2
    else:
        keys = ("cx", "cy", "rx", "ry")
        x, y, across, down = check_ring([float(values[key]) for key in keys], where)
        region = ellipse(x, y, across, down)
    return turned(region, degrees, x, y) if degrees else region


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
    yield TextFile("annotations.xml", "\n".join([*lines, "</annotations>\n"]))


CVAT = Format("CVAT for images 1.1 (annotations.xml)", recognise, read, encode=encode)
