"""labelme: a json beside each image, with shapes.

Polygons, rectangles, circles and masks are drawn in the order of the file, later ones on top, as
labelme draws them. Points and lines enclose nothing and are left out. Pixels in no shape are
background. The image itself must be there: a copy of it inside the json is not read. Predictions
are written as a polygon for each connected area.
"""

import base64
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import dist
from pathlib import Path
from typing import Any

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
    rings_of,
)
from reconet.data.formats.tree import Tree, split_of_folder
from reconet.data.images.read import decode_upright, read_frame
from reconet.system.progress import SILENT, Progress

TRIED = 8  # json files that are looked into, to recognise the format
NO_AREA = ("point", "points", "line", "linestrip")
VERSION = "5.5.0"  # of labelme, whose files look like this


@dataclass(frozen=True, slots=True)
class Stamp(Region):
    """A small PNG as base64 text, at a place of the image. What is not black is inside."""

    png: str
    top: int
    left: int

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels of the PNG that lie in the image."""
        image_hwc = decode_upright(base64.b64decode(self.png, validate=True), "its mask")
        return cut(Patch(self.top, self.left, np.asarray(image_hwc.any(2))), height, width)


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
            found.leave_out("json files of another format", path)
            continue
        image = _find(tree, path, content["imagePath"])
        if image is None:
            found.leave_out("images that are not there", f"{content['imagePath']} of {path}")
            continue
        size = content.get("imageHeight"), content.get("imageWidth")
        if size == (None, None):
            size = read_frame(tree.folder / image).upright
        parts = []
        for index, shape in enumerate(content["shapes"]):
            where = f"shapes[{index}]"
            with Place(tree.folder / path, where):
                name, region = check_name(shape["label"]), _region(shape)
            if region is None:
                found.leave_out("shapes without an area", f"{path}, {where}")
            else:
                parts.append(Part(name, region, where))
        with Place(tree.folder / path):
            found.add(image, path, check_size(*size), parts, split_of_folder(image))
    unlabelled = len(tree.image_set - found.images.keys())
    if unlabelled:
        found.leave_out("images without a json file", f"{unlabelled:,} images")
    return found.result([Path()])


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


def _region(shape: dict[str, Any]) -> Region | None:
    kind = shape.get("shape_type") or "polygon"
    if kind in NO_AREA:
        return None
    ring = check_ring(shape["points"])
    if kind == "polygon":
        return Polygons([ring]) if len(ring) >= 6 else None
    if kind not in ("rectangle", "circle", "mask"):
        raise ValueError(f"a shape of the type {str(kind)[:40]!r} cannot be drawn")
    if len(ring) != 4:
        raise ValueError(f"a {kind} has two points")
    x0, y0, x1, y1 = ring
    if kind == "mask":
        return Stamp(str(shape["mask"]), round(min(y0, y1)), round(min(x0, x1)))
    if kind == "circle":
        radius = dist((x0, y0), (x1, y1))
        return ellipse(x0, y0, radius, radius)
    return rectangle(x0, y0, x1, y1)


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
            for one, ring_n2 in rings_of(label_hw, classes, image.tolerance)
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
        yield name, json.dumps(content, indent=1)


LABELME = Format("labelme (a json for each image)", recognise, read, encode)
