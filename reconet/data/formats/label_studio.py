"""Label Studio: a json of tasks, each with an image and regions (brush, polygon, box, ellipse).

Both exports are read, JSON and JSON-MIN. Of several annotations of a task the first that was not
cancelled counts. Regions lie over each other in the order of the file, later ones on top. Pixels in
no region are background. The images must be in the folder, under the names that Label Studio gave
them or that they had before (without the eight letters in front).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reconet.data.formats.brush import Brush
from reconet.data.formats.draw import (
    Drawing,
    Part,
    Polygons,
    Region,
    ellipse,
    rectangle,
    turned,
)
from reconet.data.formats.labelled import (
    Format,
    LabelledImage,
    LeftOut,
    OwnData,
    check_name,
    check_parts,
    check_ring,
    check_size,
    drawn_data,
)
from reconet.data.formats.splits import split_of_folder
from reconet.data.formats.tree import Tree, path_of
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress

AREAS = ("brushlabels", "polygonlabels", "rectanglelabels", "ellipselabels")
UPLOADED = re.compile(r"[0-9a-f]{8}-(.+)")
TRIED = 8


def recognise(tree: Tree) -> str | None:
    """Look for a json that is a list of tasks with regions."""
    for path in tree.with_suffix(".json")[:TRIED]:
        tasks = task_list(tree, path)
        if tasks and any(next(_results(task, ""), None) is not None for task in tasks[:100]):
            return f"{path}: {len(tasks):,} tasks of Label Studio"
    return None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the regions of all tasks."""
    left_out = LeftOut()
    images: list[LabelledImage] = []
    paths = [path for path in tree.with_suffix(".json") if task_list(tree, path)]
    for path in paths:
        images += _read_file(tree, path, left_out)
    source = " and ".join(str(tree.folder / path) for path in paths)
    return drawn_data(tree, images, (), left_out.notes(), source)


def _read_file(tree: Tree, path: Path, left_out: LeftOut) -> list[LabelledImage]:
    images: dict[Path, LabelledImage] = {}
    for index, task in enumerate(task_list(tree, path)):
        where = f"[{index}]"
        results = list(_results(task, f"{tree.folder / path}, {where}"))
        if not results:
            left_out.add("tasks without regions", where)
            continue
        image = find_task_image(tree, path, task)
        if image is None:
            left_out.add("tasks whose image is not there", f"{where} {image_of(task)[-60:]}")
        elif image in images:
            left_out.add("tasks with an image of another task", where)
        else:
            images[image] = _labelled(tree, path, image, results, left_out, where)
    return list(images.values())


def task_list(tree: Tree, path: Path) -> list[dict[str, Any]]:
    """Return the tasks of a json file, or nothing if it is of another kind."""
    try:
        content = tree.read_json(path)
    except DataError:
        return []
    if not isinstance(content, list) or not content:
        return []
    if not all(isinstance(task, dict) for task in content):
        return []
    return content if any(image_of(task) for task in content[:100]) else []


def image_of(task: dict[str, Any]) -> str:
    """Return the address of a task's image: the first text that ends as an image does."""
    data = task.get("data", task)
    for value in data.values() if isinstance(data, dict) else ():
        if isinstance(value, str) and re.search(r"\.(jpe?g|png|bmp|tiff?|webp)\b", value, re.I):
            return value
    return ""


def find_task_image(tree: Tree, path: Path, task: dict[str, Any]) -> Path | None:
    """Find the image of a task in the folder."""
    place = path_of(image_of(task)).replace("\\", "/")
    folder, _, name = place.rpartition("/")
    uploaded = UPLOADED.fullmatch(name)
    folder = "" if uploaded or "data/upload/" in place else folder  # of the server
    for one in (name, uploaded[1] if uploaded else ""):
        found = tree.find_image(f"{folder}/{one}", path.parent) if one else None
        if found is not None:
            return found
    return None


def _results(task: dict[str, Any], where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the regions of a task, and where they are. JSON-MIN has them in the task itself."""
    annotations = task.get("annotations")
    if isinstance(annotations, list):
        for number, annotation in enumerate(annotations):
            values = annotation if isinstance(annotation, dict) else {}
            results = values.get("result")
            if values.get("was_cancelled") or not isinstance(results, list):
                continue
            for index, result in enumerate(results):
                if isinstance(result, dict) and isinstance(result.get("value"), dict):
                    size = {k: result.get(k) for k in ("original_height", "original_width")}
                    place = f"{where}.annotations[{number}].result[{index}]"
                    if labels_of(result["value"]) is not None:
                        yield size | result["value"], place
            return
        return
    for key, value in task.items():
        for index, region in enumerate(value if isinstance(value, list) else ()):
            if isinstance(region, dict) and labels_of(region) is not None:
                yield region, f"{where}.{key}[{index}]"


def labels_of(values: dict[str, Any]) -> str | None:
    """Return the key under which a region has its labels, if it is a region."""
    return next((key for key in values if key.endswith("labels") and values[key]), None)


def _labelled(
    tree: Tree,
    path: Path,
    image: Path,
    results: list[tuple[dict[str, Any], str]],
    left_out: LeftOut,
    short: str,
) -> LabelledImage:
    first, where = results[0]
    size = first.get("original_height"), first.get("original_width")
    height, width = check_size(*size, where)
    parts = []
    for values, place in results:
        kind = labels_of(values)
        if kind not in AREAS:
            left_out.add(f"regions of the kind {str(kind)[:40]}, which have no area", short)
            continue
        labels = values[kind]
        if isinstance(labels, list) and len(labels) > 1:
            raise DataError(f"{place}: a region has one label, not {len(labels)}.")
        name = check_name(labels[0] if isinstance(labels, list) else labels, place)
        region = _region(kind, values, height, width, place)
        parts.append(Part(name, region, place.partition(", ")[2]))
    source = str(tree.folder / path)
    drawing = Drawing(source, height, width, check_parts(parts, where), {}, 0)
    return LabelledImage(image, drawing, split_of_folder(image))


def _region(kind: str, values: dict[str, Any], height: int, width: int, where: str) -> Region:
    """Return the area of a region. All but brushes are in percent of the image."""
    if kind == "brushlabels":
        runs = values.get("rle")
        if not isinstance(runs, list) or not all(type(n) is int and 0 <= n < 256 for n in runs):
            raise DataError(f"{where}: a brush needs rle, a list of bytes.")
        return Brush(bytes(runs))
    if kind == "polygonlabels":
        points = values.get("points")
        if not isinstance(points, list) or len(points) < 3:
            raise DataError(f"{where}: a polygon has three or more points.")
        pairs = [check_ring(point, where) for point in points]
        if any(len(pair) != 2 for pair in pairs):
            raise DataError(f"{where}: a point is a list x, y.")
        return Polygons([[n for x, y in pairs for n in (x * width / 100, y * height / 100)]])
    box = kind == "rectanglelabels"
    keys = ("x", "y", "width", "height") if box else ("x", "y", "radiusX", "radiusY")
    x, y, across, down = check_ring([values.get(key) for key in keys], where)
    degrees = check_ring([values.get("rotation", 0), 0], where)[0]
    x, across = x * width / 100, across * width / 100
    y, down = y * height / 100, down * height / 100
    region = rectangle(x, y, x + across, y + down) if box else ellipse(x, y, across, down)
    return turned(region, degrees, x, y) if degrees else region


LABEL_STUDIO = Format(
    title="Label Studio (json)",
    recognise=recognise,
    read=read,
    overlaps="later on top",
)
