"""CVAT for images 1.1: annotations.xml with polygons, masks, boxes and ellipses.

A shape with a higher z_order is on top; of equal ones the later. Polylines, points, cuboids and
tags are left out. Pixels in no shape are background. The file is read without entities and
document types, so that a small file cannot unpack to gigabytes. Predictions are written as a mask
for each class, which CVAT's brush corrects.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from xml.parsers import expat
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
DEEPEST = 64
HEAD = 2**16


class _File:
    """What the elements of one file say, collected while it is parsed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: list[str] = []
        self.images: list[tuple[Mapping[str, str], list[tuple[int, Part]]]] = []
        self.left_out: list[tuple[str, str]] = []
        self._open: list[str] = []
        self._text = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handle the beginning of an element."""
        if not self._open and tag != "annotations":
            raise DataError(f"{self.path} is no file of CVAT: its root is {tag[:40]!r}.")
        if len(self._open) >= DEEPEST:
            raise DataError(f"{self.path} nests too deeply.")
        self._open.append(tag)
        self._text = ""
        if tag == "track":
            raise DataError(
                f"{self.path} is of the kind CVAT for video: export it as CVAT for images 1.1."
            )
        if tag == "image":
            self.images.append((attributes, []))
        elif self.images and tag in AREAS and self._open[-2] == "image":
            self._add(tag, attributes)
        elif self.images and tag in OTHERS and self._open[-2] == "image":
            self.left_out.append((f"{tag} elements, which have no area", self._where(tag)))

    def end(self, tag: str) -> None:
        """Handle the end of an element."""
        if tag == "name" and self._open[-2:-1] == ["label"]:
            self.names.append(check_name(self._text, f"{self.path}, label"))
        self._open.pop()

    def text(self, data: str) -> None:
        """Collect the text of an element."""
        if self._open and self._open[-1] == "name":
            self._text += data

    def _where(self, tag: str) -> str:
        attributes, parts = self.images[-1]
        return f"image {attributes.get('name', '?')!r}, {tag} {len(parts) + 1}"

    def _add(self, tag: str, attributes: dict[str, str]) -> None:
        where = self._where(tag)
        full = f"{self.path}, {where}"
        try:
            region = _region(tag, attributes, full)
            order = int(attributes.get("z_order", 0))
        except KeyError as error:
            raise DataError(f"{full}: there is no {error}.") from error
        except (ValueError, OverflowError) as error:
            raise DataError(f"{full}: {str(error)[:100]}.") from error
        name = check_name(attributes.get("label"), full)
        self.images[-1][1].append((order, Part(name, region, where)))


def recognise(tree: Tree) -> str | None:
    """Look for an xml file whose root is <annotations>, with images in it."""
    found = _files(tree)
    return f"{', '.join(map(str, found))}: <annotations> of CVAT" if found else None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the shapes of all images."""
    files, found = _files(tree), Reading(tree)
    for path in files:
        content = _parse(tree.folder / path)
        found.declared += content.names
        for reason, where in content.left_out:
            found.leave_out(reason, where)
        for attributes, parts in content.images:
            name = attributes.get("name", "")
            subset = SPLITS.get(attributes.get("subset", "").lower(), "")
            image = tree.find_image(name, path.parent, subset or split_of_file(path))
            if image is None:
                found.leave_out(f"images of {path} that are not there", name)
                continue
            height, width = (_number(attributes.get(key)) for key in ("height", "width"))
            size = check_size(height, width, f"{tree.folder / path}, image {image}")
            ordered = [part for _, part in sorted(parts, key=lambda item: item[0])]
            split = subset or split_of_folder(image) or split_of_file(path)
            found.add(image, path, size, ordered, split)
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


def _parse(path: Path) -> _File:
    """Parse a file of CVAT. Document types and entities are refused."""
    content = _File(path)
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = lambda *about: _refuse(path)
    parser.EntityDeclHandler = lambda *about: _refuse(path)
    parser.StartElementHandler, parser.EndElementHandler = content.start, content.end
    parser.CharacterDataHandler = content.text
    try:
        parser.Parse(read_bytes(path), True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, "not XML")
        raise DataError(f"{path}, line {error.lineno}: {reason}.") from error
    except (ValueError, LookupError) as error:  # an unknown encoding
        raise DataError(f"cannot read {path}: {str(error)[:100]}.") from error
    return content


def _refuse(path: Path) -> None:
    raise DataError(f"{path} has a document type or entities, which are not read.")


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
