"""labelme: a json beside each image, with shapes.

Polygons, rectangles, circles and masks are drawn in the order of the file, later ones on top, as
labelme draws them. Points and lines enclose nothing and are left out. Pixels in no shape are
background. The image itself must be there: a copy of it inside the json is not read. Predictions
are written as a polygon for each connected area.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from math import dist
from pathlib import Path
from typing import Any

from reconet.data.formats.draw import (
    Part,
    Polygons,
    Region,
    Stamp,
    ellipse,
    outlines,
    rectangle,
)
from reconet.data.formats.labelled import (
    Format,
    OwnData,
    PredictedImage,
    Reading,
    TextFile,
    WrittenClass,
    check_dict,
    check_name,
    check_points,
    check_size,
    regions_of,
)
from reconet.data.formats.regions import drawn_data
from reconet.data.formats.tree import Tree, split_of_folder
from reconet.data.images.read import read_frame
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress

TRIED = 8  # json files that are looked into, to recognise the format
NO_AREA = ("point", "points", "line", "linestrip")
VERSION = "5.5.0"  # of labelme, whose files look like this


def recognise(tree: Tree) -> str | None:
    """Look for json files with shapes and the name of an image."""
    files = tree.with_suffix(".json")
    found = [path for path in files[:TRIED] if _is_labelme(tree.try_json(path))]
    return f"{len(files):,} json files with shapes, such as {found[0]}" if found else None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the shapes of all json files."""
    found, files = Reading(tree), tree.with_suffix(".json")
    progress.start(len(files), "read labels")
    for path in files:
        progress.advance()
        content = tree.read_json(path)
        if not _is_labelme(content):
            found.leave_out("json files of another format", str(path))
            continue
        image = _find(tree, path, content["imagePath"])
        if image is None:
            found.leave_out("images that are not there", f"{content['imagePath']} of {path}")
            continue
        size = content.get("imageHeight"), content.get("imageWidth")
        if size == (None, None):
            size = read_frame(tree.folder / image).upright
        height_width = check_size(*size, str(tree.folder / path))
        parts = list(_parts(tree, path, content["shapes"], found))
        found.add(image, path, height_width, parts, split_of_folder(image))
    unlabelled = len(tree.image_set - {one.image for one in found.images})
    if unlabelled:
        found.leave_out("images without a json file", f"{unlabelled:,} images")
    return drawn_data(found, [Path()])


def _is_labelme(content: object) -> bool:
    return (
        isinstance(content, dict)
        and isinstance(content.get("shapes"), list)
        and isinstance(content.get("imagePath"), str)
    )


def _find(tree: Tree, path: Path, name: str) -> Path | None:
    place = Path(os.path.normpath(path.parent / name.replace("\\", "/")))
    for one in (place, path.parent / place.name):
        if one in tree.image_set:
            return one
    return tree.find_image(str(place), path.parent)


def _parts(tree: Tree, path: Path, shapes: list[Any], found: Reading) -> Iterator[Part]:
    for index, shape in enumerate(shapes):
        where = f"shapes[{index}]"
        full = f"{tree.folder / path}, {where}"
        values = check_dict(shape, full)
        name, region = check_name(values.get("label"), full), _region(values, full)
        if region is None:
            found.leave_out("shapes without an area", f"{path}, {where}")
        else:
            yield Part(name, region, where)


def _region(values: dict[str, Any], where: str) -> Region | None:
    kind = values.get("shape_type") or "polygon"
    if kind in NO_AREA:
        return None
    ring = check_points(values.get("points"), where)
    if kind == "polygon":
        return Polygons([ring]) if len(ring) >= 6 else None
    if kind not in ("rectangle", "circle", "mask"):
        raise DataError(f"{where}: a shape of the type {str(kind)[:40]!r} cannot be drawn.")
    if len(ring) != 4:
        raise DataError(f"{where}: a {kind} has two points.")
    x0, y0, x1, y1 = ring
    left, top = min(x0, x1), min(y0, y1)
    if kind == "mask":
        png = values.get("mask")
        if not isinstance(png, str):
            raise DataError(f"{where}: there is no mask.")
        return Stamp(png, round(top), round(left))
    if kind == "circle":
        radius = dist((x0, y0), (x1, y1))
        return ellipse(x0, y0, radius, radius)
    return rectangle(left, top, max(x0, x1), max(y0, y1))


def encode(
    images: Iterable[PredictedImage], classes: Sequence[WrittenClass], folder: Path
) -> Iterator[TextFile]:
    """Write a file for each image. It names the image by a relative path."""
    for image in images:
        name = f"{image.stem}.json"
        label_hw = image.labels()
        shapes = [
            {
                "label": one.name,
                "points": ring_n2.astype(float).tolist(),
                "group_id": None,
                "shape_type": "polygon",
                "flags": {},
            }
            for one, inside_hw in regions_of(label_hw, classes)
            for ring_n2 in outlines(inside_hw)
        ]
        content = {
            "version": VERSION,
            "flags": {},
            "shapes": shapes,
            "imagePath": Path(os.path.relpath(image.path, (folder / name).parent)).as_posix(),
            "imageData": None,
            "imageHeight": label_hw.shape[0],
            "imageWidth": label_hw.shape[1],
        }
        yield TextFile(name, json.dumps(content, indent=1))


LABELME = Format("labelme (a json for each image)", recognise, read, encode=encode)
