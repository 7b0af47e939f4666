"""Label Studio: a json of tasks, or a PNG for each brush label.

JSON and JSON-MIN are read: brush, polygon, box and ellipse. Of several annotations of a task the
first that was not cancelled counts. Regions lie over each other in the order of the file, later
ones on top. Pixels in no region are background. The images must be in the folder, under the names
that Label Studio gave them or that they had before (without the eight letters in front).

    task-12-annotation-34-by-1-tag-Cat-0.png    label Cat of task 12

The names of PNGs tell the task, not its image. So the json export has to be there too, for the
names of the images, or images that are called by their task: 12.jpg or task-12.jpg. Later file
names are on top.

Predictions are written as one brush stroke for each class of an image, beside the labelling
interface that they belong to. The images are named as Label Studio's local storage serves them.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from xml.sax.saxutils import quoteattr

import numpy as np

from reconet.data.formats.brush import Brush, pack
from reconet.data.formats.draw import (
    Part,
    Patch,
    Place,
    Polygons,
    Region,
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
from reconet.data.formats.tree import Tree, split_of_folder
from reconet.data.images.read import ColourMaskError, read_frame, read_image, read_mask
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress

AREAS = ("brushlabels", "polygonlabels", "rectanglelabels", "ellipselabels")
UPLOADED = re.compile(r"[0-9a-f]{8}-(.+)")
PNG = re.compile(r"task-(\d{1,17})-annotation-(\d{1,17})-by-[^-]*-(.+)-(\d+)\.png")
TRIED = 8  # json files that are looked into, to recognise the format
SERVED = "/data/local-files/?d="

Task = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WhiteIn(Region):
    """A PNG file, black and white, as large as the image."""

    path: Path

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels that are not black."""
        try:
            inside_hw = read_mask(self.path) > 0
        except ColourMaskError:  # black and white may be saved as colours
            inside_hw = np.asarray(read_image(self.path).any(2))
        if inside_hw.shape != (height, width):
            raise ValueError(f"{self.path.name} is not {width} x {height} pixels large")
        return Patch(0, 0, inside_hw)


def recognise(tree: Tree) -> str | None:
    """Look for a json that is a list of tasks with regions."""
    for path in tree.with_suffix(".json")[:TRIED]:
        tasks = _tasks(tree, path)
        if any(_results(task) for task in tasks[:100]):
            return f"{path}: {len(tasks):,} tasks of Label Studio"
    return None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the regions of all tasks."""
    found = Reading(tree)
    files = [path for path in tree.with_suffix(".json") if _tasks(tree, path)]
    for path in files:
        taken: set[Path] = set()
        for index, task in enumerate(_tasks(tree, path)):
            task_place = f"[{index}]"
            results = _results(task)
            image = _find_image(tree, path, task) if results else None
            if not results:
                found.leave_out("tasks without regions", task_place)
            elif image is None:
                told = f"{task_place} {_address(task)[-60:]}"
                found.leave_out("tasks whose image is not there", told)
            elif image in taken:
                found.leave_out("tasks with an image of another task", task_place)
            else:
                taken.add(image)
                parts, size = [], (0, 0)
                for where, values in results:
                    place = f"{task_place}{where}"
                    with Place(tree.folder / path, place):
                        size = size if any(size) else _size(values)
                        kind = _kind(values)
                        if kind in AREAS:
                            parts.append(_part(kind, values, size, place))
                        else:
                            reason = f"regions of the kind {kind[:40]}, which have no area"
                            found.leave_out(reason, task_place)
                found.add(image, path, size, parts, split_of_folder(image))
    return found.result(files)


def _tasks(tree: Tree, path: Path) -> list[Task]:
    """Return the tasks of a json file, or nothing if it is of another kind."""
    content = tree.try_json(path)
    if not isinstance(content, list) or not all(isinstance(task, dict) for task in content):
        return []
    return content if any(_address(task) for task in content[:100]) else []


def _address(task: Task) -> str:
    """Return the address of a task's image: the first text that ends as an image does."""
    data = task.get("data", task)
    for value in data.values() if isinstance(data, dict) else ():
        if isinstance(value, str) and re.search(r"\.(jpe?g|png|bmp|tiff?|webp)\b", value, re.I):
            return value
    return ""


def _find_image(tree: Tree, path: Path, task: Task) -> Path | None:
    """Find the image of a task, from an address such as /data/local-files/?d=mine/a%20b.jpg."""
    address = _address(task)
    place = unquote(address.partition("?d=")[2] or address.partition("?")[0]).replace("\\", "/")
    folder, _, name = place.rpartition("/")
    uploaded = UPLOADED.fullmatch(name)
    folder = "" if uploaded or "data/upload/" in place else folder  # of the server
    for one in (name, uploaded[1] if uploaded else ""):
        found = tree.find_image(f"{folder}/{one}", path.parent) if one else None
        if found is not None:
            return found
    return None


def _results(task: Task) -> list[tuple[str, dict[str, Any]]]:
    """Return the regions of a task, and where they are. JSON-MIN has them in the task itself."""
    annotations = task.get("annotations")
    if not isinstance(annotations, list):
        return [
            (f".{key}[{index}]", region)
            for key, listed in task.items()
            for index, region in enumerate(listed if isinstance(listed, list) else ())
            if isinstance(region, dict) and _kind(region)
        ]
    for number, annotation in enumerate(annotations):
        values = annotation if isinstance(annotation, dict) else {}
        listed = values.get("result")
        if values.get("was_cancelled") or not isinstance(listed, list):
            continue
        results = []
        for index, result in enumerate(listed):
            value = result.get("value") if isinstance(result, dict) else None
            if isinstance(value, dict) and _kind(value):
                size = {key: result.get(key) for key in ("original_height", "original_width")}
                results.append((f".annotations[{number}].result[{index}]", size | value))
        return results
    return []


def _kind(values: dict[str, Any]) -> str:
    """Return the key under which a region has its labels, if it is a region."""
    return next((key for key in values if key.endswith("labels") and values[key]), "")


def _size(values: dict[str, Any]) -> tuple[int, int]:
    return check_size(values.get("original_height"), values.get("original_width"))


def _part(kind: str, values: dict[str, Any], size: tuple[int, int], place: str) -> Part:
    labels = values[kind]
    if isinstance(labels, list) and len(labels) > 1:
        raise ValueError(f"a region has one label, not {len(labels)}")
    name = check_name(labels[0] if isinstance(labels, list) else labels)
    return Part(name, _region(kind, values, *size), place)


def _region(kind: str, values: dict[str, Any], height: int, width: int) -> Region:
    """Return the area of a region. All but brushes are in percent of the image."""
    if kind == "brushlabels":
        runs = values.get("rle")
        if not isinstance(runs, list) or not all(type(n) is int and 0 <= n < 256 for n in runs):
            raise ValueError("a brush needs rle, a list of bytes")
        return Brush(bytes(runs))
    if kind == "polygonlabels":
        ring = check_ring(values.get("points"), least=3)
        return Polygons([[n * (height if i % 2 else width) / 100 for i, n in enumerate(ring)]])
    box = kind == "rectanglelabels"
    keys = ("x", "y", "width", "height") if box else ("x", "y", "radiusX", "radiusY")
    x, y, across, down = check_ring([values.get(key) for key in keys])
    degrees = check_ring([values.get("rotation", 0), 0])[0]
    x, across = x * width / 100, across * width / 100
    y, down = y * height / 100, down * height / 100
    region = rectangle(x, y, x + across, y + down) if box else ellipse(x, y, across, down)
    return turned(region, degrees, x, y)


def _masks(tree: Tree) -> list[tuple[Path, re.Match[str]]]:
    """List the PNGs of the export, with what their names tell: task, annotation, label."""
    matches = ((path, PNG.fullmatch(path.name)) for path in tree.with_suffix(".png"))
    return [(path, match) for path, match in matches if match is not None]


def recognise_png(tree: Tree) -> str | None:
    """Look for the file names of the PNG export."""
    found = _masks(tree)
    return f"{len(found):,} files such as {found[0][0].name}" if found else None


def read_png(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the PNGs of all tasks, and find the images of these."""
    found, images_of = Reading(tree), _images_of_tasks(tree)
    by_task: dict[int, list[tuple[Path, re.Match[str]]]] = defaultdict(list)
    for path, match in _masks(tree):
        by_task[int(match[1])].append((path, match))
    # Newer versions put the name of the control, such as "tag-", before each label.
    controls = {match[3].partition("-")[0] + "-" for some in by_task.values() for _, match in some}
    control = controls.pop() if len(controls) == 1 else ""
    for task, some in sorted(by_task.items()):
        if task not in images_of:
            found.leave_out("tasks whose image is not known", f"task {task}")
            continue
        image, *others = sorted(images_of[task])
        if others:
            raise DataError(f"task {task} of {tree.folder} may be {image} or {others[0]}.")
        first = min(int(match[2]) for _, match in some)
        parts = []
        for path, match in some:
            if int(match[2]) == first:
                with Place(tree.folder / path):
                    name = check_name(match[3].removeprefix(control))
                parts.append(Part(name, WhiteIn(tree.folder / path), str(path)))
        size = read_frame(tree.folder / some[0][0]).stored
        found.add(image, Path(), size, parts, split_of_folder(image))
    if not found.images:
        raise DataError(
            f"the PNGs of Label Studio in {tree.folder} name tasks, not images: put the json "
            "export beside them, or call images 12.jpg for task 12."
        )
    return found.result([Path()])


def _images_of_tasks(tree: Tree) -> dict[int, set[Path]]:
    """Return the image of each task. Where several would do, all of them."""
    named: dict[int, set[Path]] = defaultdict(set)
    told: dict[int, set[Path]] = defaultdict(set)
    for image in tree.images:
        match = re.fullmatch(r"(?:task-)?(\d{1,17})", image.stem)
        if match is not None:
            named[int(match[1])].add(image)
    for path in tree.with_suffix(".json"):
        for task in _tasks(tree, path):
            place = _find_image(tree, path, task)
            if type(task.get("id")) is int and place is not None:
                told[task["id"]].add(place)
    return named | told


def encode(
    images: Iterable[PredictedImage], classes: Sequence[WrittenClass], folder: Path
) -> Iterator[TextFile]:
    """Write the interface, and one file for all images."""
    labels = "".join(
        f"    <Label value={quoteattr(one.name)} background={quoteattr(one.colour)}/>\n"
        for one in classes
    )
    yield (
        "labeling-interface.xml",
        '<View>\n  <Image name="image" value="$image" zoom="true"/>\n'
        f'  <BrushLabels name="label" toName="image">\n{labels}  </BrushLabels>\n</View>\n',
    )
    tasks = []
    for image in images:
        label_hw = image.labels()
        height, width = label_hw.shape
        strokes = [
            {
                "id": f"class-{one.label}",
                "type": "brushlabels",
                "from_name": "label",
                "to_name": "image",
                "original_width": width,
                "original_height": height,
                "image_rotation": 0,
                "value": {"format": "rle", "rle": list(pack(inside_hw)), "brushlabels": [one.name]},
            }
            for one, inside_hw in regions_of(label_hw, classes)
        ]
        predictions = [{"model_version": "reconet", "result": strokes}]
        data = {"image": SERVED + quote(image.name)}
        tasks.append({"data": data, "predictions": predictions})
    yield "tasks.json", json.dumps(tasks)


LABEL_STUDIO = Format("Label Studio (json)", recognise, read, encode)
LABEL_STUDIO_PNG = Format("Label Studio (PNG export)", recognise_png, read_png)
