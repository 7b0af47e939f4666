"""labelme: a json beside each image, with shapes.

Polygons, rectangles, circles and masks are drawn in the order of the file, later ones on top, as
labelme draws them. Points and lines enclose nothing and are left out. Pixels in no shape are
background. The image itself must be there: a copy of it inside the json is not read.
"""

import os
from math import dist
from pathlib import Path
from typing import Any

from reconet.data.formats.draw import Drawing, Part, Polygons, Region, Stamp, ellipse, rectangle
from reconet.data.formats.labelled import (
    Format,
    LabelledImage,
    LeftOut,
    OwnData,
    check_dict,
    check_name,
    check_parts,
    check_ring,
    check_size,
    drawn_data,
)
from reconet.data.formats.splits import split_of_folder
from reconet.data.formats.tree import Tree
from reconet.data.images.read import read_frame
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress

TRIED = 8  # json files that are looked into, to recognise the format
NO_AREA = ("point", "points", "line", "linestrip")


def recognise(tree: Tree) -> str | None:
    """Look for json files with shapes and the name of an image."""
    files = tree.with_suffix(".json")
    for path in files[:TRIED]:
        try:
            content = tree.read_json(path)
        except DataError:
            continue
        if _is_labelme(content):
            return f"{len(files):,} json files with shapes, such as {path}"
    return None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the shapes of all json files."""
    left_out = LeftOut()
    images: list[LabelledImage] = []
    taken: set[Path] = set()
    files = tree.with_suffix(".json")
    progress.start(len(files), "read labels")
    for path in files:
        progress.advance()
        content = tree.read_json(path)
        if not _is_labelme(content):
            left_out.add("json files of another format", str(path))
            continue
        image = _find(tree, path, content["imagePath"])
        if image is None:
            left_out.add("images that are not there", f"{content['imagePath']} of {path}")
            continue
        taken.add(image)
        images.append(_read_file(tree, path, image, content, left_out))
    unlabelled = len([image for image in tree.images if image not in taken])
    if unlabelled:
        left_out.add("images without a json file", f"{unlabelled:,} images")
    return drawn_data(tree, images, (), left_out.notes(), str(tree.folder))


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


def _read_file(
    tree: Tree, path: Path, image: Path, content: dict[str, Any], left_out: LeftOut
) -> LabelledImage:
    source = tree.folder / path
    size = content.get("imageHeight"), content.get("imageWidth")
    if size == (None, None):
        size = read_frame(tree.folder / image).upright
    height, width = check_size(*size, str(source))
    parts = []
    for index, shape in enumerate(content["shapes"]):
        where = f"shapes[{index}]"
        values = check_dict(shape, f"{source}, {where}")
        name = check_name(values.get("label"), f"{source}, {where}")
        region = _region(values, f"{source}, {where}")
        if region is None:
            left_out.add("shapes without an area", f"{path}, {where}")
        else:
            parts.append(Part(name, region, where))
    drawing = Drawing(str(source), height, width, check_parts(parts, str(source)), {}, 0)
    return LabelledImage(image, drawing, split_of_folder(image))


def _region(values: dict[str, Any], where: str) -> Region | None:
    kind = values.get("shape_type") or "polygon"
    points = values.get("points")
    if kind in NO_AREA:
        return None
    if not isinstance(points, list):
        raise DataError(f"{where}: there are no points.")
    pairs = [check_ring(point, where) for point in points]
    if any(len(pair) != 2 for pair in pairs):
        raise DataError(f"{where}: a point is a list x, y.")
    if kind == "polygon":
        ring = [value for pair in pairs for value in pair]
        return Polygons([ring]) if len(pairs) >= 3 else None
    if kind not in ("rectangle", "circle", "mask"):
        raise DataError(f"{where}: a shape of the type {str(kind)[:40]!r} cannot be drawn.")
    if len(pairs) != 2:
        raise DataError(f"{where}: a {kind} has two points.")
    (x0, y0), (x1, y1) = pairs
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


LABELME = Format(
    title="labelme (a json for each image)",
    recognise=recognise,
    read=read,
    overlaps="later on top",
)
