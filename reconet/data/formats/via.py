"""VGG Image Annotator: a json with the regions of all images, as an export or as a project.

Polygons, rectangles, circles and ellipses are drawn in the order of the file, later ones on top.
Points and lines are left out. The class is the attribute of the regions that is called class or
label, else the one that most of them have. Pixels in no region are background.
"""

from collections import Counter
from collections.abc import Iterator
from math import degrees
from pathlib import Path
from typing import Any

from reconet.data.formats.draw import Part, Place, Polygons, Region, ellipse, rectangle, turned
from reconet.data.formats.reading import Format, OwnData, Reading, check_name, check_ring
from reconet.data.formats.tree import Tree, split_of_file, split_of_folder
from reconet.data.images.read import read_frame
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted

MOST_FILES = 64  # json files that are looked into
PROJECT = "_via_img_metadata"
NO_AREA = ("point", "polyline")
USUAL = ("class", "label", "category", "name", "type", "object")  # names of the attribute
UNNAMED = "object"
Entry = dict[str, Any]


def _files(tree: Tree) -> dict[Path, list[Entry]]:
    """Read the json files whose entries have a filename and regions."""
    found = {}
    for path in tree.with_suffix(".json")[:MOST_FILES]:
        content = tree.try_json(path)
        if isinstance(content, dict):
            images = content.get(PROJECT, content)
            entries = [*images.values()] if isinstance(images, dict) else []
            if entries and all(
                isinstance(e, dict) and {"filename", "regions"} <= e.keys() for e in entries
            ):
                found[path] = entries
    return found


def recognise(tree: Tree) -> str | None:
    """Look for a json of entries with a filename and regions."""
    found = _files(tree)
    images = counted(sum(map(len, found.values())), "image")
    return f"{', '.join(map(str, found))}: {images} of VIA" if found else None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the regions of all images."""
    files, found = _files(tree), Reading(tree)
    attribute = _attribute(files)
    if not attribute:
        found.notes.append(f"regions have no attribute that names a class: all are {UNNAMED!r}")
    for path, entries in files.items():
        progress.start(len(entries), "read labels")
        for entry in entries:
            progress.advance()
            split = split_of_file(path)
            image = tree.find_image(str(entry["filename"]), path.parent, split)
            if image is None:
                found.leave_out(f"images of {path} that are not there", entry["filename"])
                continue
            parts = []
            for where, region in _regions(entry):
                with Place(tree.folder / path, where):
                    shape = _region(region["shape_attributes"])
                    text = _text(region, attribute) if attribute else UNNAMED
                    name = check_name(text) if text else ""
                if shape is None:
                    found.leave_out("points and lines", f"{path}, {where}")
                elif not name:
                    found.leave_out(f"regions without the attribute {attribute}", where)
                else:
                    parts.append(Part(name, shape, where))
            size = read_frame(tree.folder / image).upright
            found.add(image, path, size, parts, split or split_of_folder(image))
    return found.result(files)


def _regions(entry: Entry) -> Iterator[tuple[str, Entry]]:
    """Yield the regions of an image, with their places. Version 1 numbers them in a dictionary."""
    regions = entry["regions"]
    listed = [*regions.values()] if isinstance(regions, dict) else regions
    for index, region in enumerate(listed if isinstance(listed, list) else ()):
        yield f"{str(entry['filename'])[:100]!r}, regions[{index}]", region


def _attributes(region: object) -> Entry:
    found = region.get("region_attributes") if isinstance(region, dict) else None
    return found if isinstance(found, dict) else {}


def _attribute(files: dict[Path, list[Entry]]) -> str:
    """Return the attribute that names the class."""
    every = [r for entries in files.values() for entry in entries for _, r in _regions(entry)]
    times = Counter(key for r in every for key in _attributes(r) if _text(r, key))
    usual = [key for word in USUAL for key in times if key.lower() == word]
    return next(iter([*usual, *(key for key, _ in times.most_common(1))]), "")


def _text(region: Entry, attribute: str) -> str:
    """Return the value of an attribute, or nothing. Checkboxes are a dictionary of what is on."""
    value = _attributes(region).get(attribute)
    if isinstance(value, dict):
        ticked = [name for name, is_on in value.items() if is_on]
        value = ticked[0] if len(ticked) == 1 else None
    return value.strip() if isinstance(value, str) else ""


def _region(shape: Entry) -> Region | None:
    kind = shape["name"]
    if kind in NO_AREA:
        return None
    if kind == "polygon":
        points = zip(shape["all_points_x"], shape["all_points_y"], strict=True)
        ring = check_ring([value for point in points for value in point])
        return Polygons([ring]) if len(ring) >= 6 else None
    if kind == "rect":
        x, y, width, height = check_ring([shape[k] for k in ("x", "y", "width", "height")])
        return rectangle(x, y, x + width, y + height)
    if kind not in ("circle", "ellipse"):
        raise ValueError(f"a region of the kind {str(kind)[:40]!r} cannot be drawn")
    radii = ("r", "r") if kind == "circle" else ("rx", "ry")
    x, y, across, down = check_ring([shape[k] for k in ("cx", "cy", *radii)])
    angle, _ = check_ring([shape.get("theta", 0), 0])
    return turned(ellipse(x, y, across, down), degrees(angle), x, y)


VIA = Format("VGG Image Annotator (json)", recognise, read)
