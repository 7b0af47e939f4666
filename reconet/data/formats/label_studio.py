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
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote
from xml.sax.saxutils import quoteattr

from reconet.data.formats.brush import Brush, pack
from reconet.data.formats.draw import (
    Part,
    Polygons,
    Region,
    WhiteIn,
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
    check_points,
    check_ring,
    check_size,
    regions_of,
)
from reconet.data.formats.regions import drawn_data
from reconet.data.formats.tree import Tree, split_of_folder
from reconet.data.images.read import read_frame
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress

AREAS = ("brushlabels", "polygonlabels", "rectanglelabels", "ellipselabels")
UPLOADED = re.compile(r"[0-9a-f]{8}-(.+)")
PNG = re.compile(r"task-(\d{1,17})-annotation-(\d{1,17})-by-[^-]*-(.+)-(\d+)\.png")
TRIED = 8  # json files that are looked into, to recognise the format
SERVED = "/data/local-files/?d="

Task = dict[str, Any]


class _Mask(NamedTuple):
    """A PNG of the export."""

    path: Path
    task: int
    annotation: int
    label: str


def recognise(tree: Tree) -> str | None:
    """Look for a json that is a list of tasks with regions."""
    for path in tree.with_suffix(".json")[:TRIED]:
        tasks = _tasks(tree, path)
        if any(next(_results(task, ""), None) is not None for task in tasks[:100]):
            return f"{path}: {len(tasks):,} tasks of Label Studio"
    return None


def recognise_png(tree: Tree) -> str | None:
    """Look for the file names of the PNG export."""
    found = _masks(tree)
    return f"{len(found):,} files such as {found[0].path.name}" if found else None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the regions of all tasks."""
    found = Reading(tree)
    files = [path for path in tree.with_suffix(".json") if _tasks(tree, path)]
    for path in files:
        taken: set[Path] = set()
        for index, task in enumerate(_tasks(tree, path)):
            where = f"[{index}]"
            results = list(_results(task, f"{tree.folder / path}, {where}"))
            image = _find_image(tree, path, task) if results else None
            if not results:
                found.leave_out("tasks without regions", where)
            elif image is None:
                address = _address(task)[-60:]
                found.leave_out("tasks whose image is not there", f"{where} {address}")
            elif image in taken:
                found.leave_out("tasks with an image of another task", where)
            else:
                taken.add(image)
                first, place = results[0]
                size = check_size(first.get("original_height"), first.get("original_width"), place)
                parts = [*_parts(results, size, found, where)]
                found.add(image, path, size, parts, split_of_folder(image))
    return drawn_data(found, files)


def read_png(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the PNGs of all tasks, and find the images of these."""
    masks, found, images_of = _masks(tree), Reading(tree), _images_of_tasks(tree)
    by_task: dict[int, list[_Mask]] = defaultdict(list)
    for mask in masks:
        by_task[mask.task].append(mask)
    control = _control([mask.label for mask in masks])
    for task, some in sorted(by_task.items()):
        if task not in images_of:
            found.leave_out("tasks whose image is not known", f"task {task}")
            continue
        image, *others = sorted(images_of[task])
        if others:
            raise DataError(f"task {task} of {tree.folder} may be {image} or {others[0]}.")
        first = min(mask.annotation for mask in some)
        parts = [
            Part(
                check_name(mask.label.removeprefix(control), str(mask.path)),
                WhiteIn(tree.folder / mask.path),
                str(mask.path),
            )
            for mask in some
            if mask.annotation == first
        ]
        size = read_frame(tree.folder / some[0].path).stored
        found.add(image, Path(), size, parts, split_of_folder(image))
    if not found.images:
        raise DataError(
            f"the PNGs of Label Studio in {tree.folder} name tasks, not images: put the json "
            "export beside them, or call images 12.jpg for task 12."
        )
    return drawn_data(found, [Path()])


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


def _results(task: Task, where: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the regions of a task, and where they are. JSON-MIN has them in the task itself."""
    annotations = task.get("annotations")
    if not isinstance(annotations, list):
        for key, value in task.items():
            for index, region in enumerate(value if isinstance(value, list) else ()):
                if isinstance(region, dict) and _kind(region):
                    yield region, f"{where}.{key}[{index}]"
        return
    for number, annotation in enumerate(annotations):
        values = annotation if isinstance(annotation, dict) else {}
        results = values.get("result")
        if values.get("was_cancelled") or not isinstance(results, list):
            continue
        for index, result in enumerate(results):
            value = result.get("value") if isinstance(result, dict) else None
            if isinstance(value, dict) and _kind(value):
                size = {key: result.get(key) for key in ("original_height", "original_width")}
                yield size | value, f"{where}.annotations[{number}].result[{index}]"
        return


def _kind(values: dict[str, Any]) -> str:
    """Return the key under which a region has its labels, if it is a region."""
    return next((key for key in values if key.endswith("labels") and values[key]), "")


def _parts(
    results: Sequence[tuple[dict[str, Any], str]], size: tuple[int, int], found: Reading, short: str
) -> Iterator[Part]:
    for values, place in results:
        kind = _kind(values)
        if kind not in AREAS:
            found.leave_out(f"regions of the kind {kind[:40]}, which have no area", short)
            continue
        labels = values[kind]
        if isinstance(labels, list) and len(labels) > 1:
            raise DataError(f"{place}: a region has one label, not {len(labels)}.")
        name = check_name(labels[0] if isinstance(labels, list) else labels, place)
        yield Part(name, _region(kind, values, *size, place), place.partition(", ")[2])


def _region(kind: str, values: dict[str, Any], height: int, width: int, where: str) -> Region:
    """Return the area of a region. All but brushes are in percent of the image."""
    if kind == "brushlabels":
        runs = values.get("rle")
        if not isinstance(runs, list) or not all(type(n) is int and 0 <= n < 256 for n in runs):
            raise DataError(f"{where}: a brush needs rle, a list of bytes.")
        return Brush(bytes(runs))
    if kind == "polygonlabels":
        ring = check_points(values.get("points"), where)
        if len(ring) < 6:
            raise DataError(f"{where}: a polygon has three or more points.")
        return Polygons([[n * (height if i % 2 else width) / 100 for i, n in enumerate(ring)]])
    box = kind == "rectanglelabels"
    keys = ("x", "y", "width", "height") if box else ("x", "y", "radiusX", "radiusY")
    x, y, across, down = check_ring([values.get(key) for key in keys], where)
    degrees = check_ring([values.get("rotation", 0), 0], where)[0]
    x, across = x * width / 100, across * width / 100
    y, down = y * height / 100, down * height / 100
    region = rectangle(x, y, x + across, y + down) if box else ellipse(x, y, across, down)
    return turned(region, degrees, x, y) if degrees else region


def _masks(tree: Tree) -> list[_Mask]:
    matches = [(path, PNG.fullmatch(path.name)) for path in tree.with_suffix(".png")]
    return [_Mask(path, int(m[1]), int(m[2]), m[3]) for path, m in matches if m is not None]


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


def _control(labels: list[str]) -> str:
    """Return the name of the control, "tag-", which newer versions put before each label."""
    controls = {label.partition("-")[0] for label in labels}
    named = f"{controls.pop()}-" if len(controls) == 1 else ""
    return named if all(label.startswith(named) for label in labels) else ""


def encode(
    images: Iterable[PredictedImage], classes: Sequence[WrittenClass], folder: Path
) -> Iterator[TextFile]:
    """Write the interface, and one file for all images."""
    labels = "".join(
        f"    <Label value={quoteattr(one.name)} background={quoteattr(one.colour)}/>\n"
        for one in classes
    )
    yield TextFile(
        "labeling-interface.xml",
        '<View>\n  <Image name="image" value="$image" zoom="true"/>\n'
        f'  <BrushLabels name="label" toName="image">\n{labels}  </BrushLabels>\n</View>\n',
    )
    tasks = [
        {
            "data": {"image": SERVED + quote(image.name)},
            "predictions": [{"model_version": "reconet", "result": _strokes(image, classes)}],
        }
        for image in images
    ]
    yield TextFile("tasks.json", json.dumps(tasks))


def _strokes(image: PredictedImage, classes: Sequence[WrittenClass]) -> list[dict[str, Any]]:
    label_hw = image.labels()
    return [
        {
            "id": f"class-{one.label}",
            "type": "brushlabels",
            "from_name": "label",
            "to_name": "image",
            "original_width": label_hw.shape[1],
            "original_height": label_hw.shape[0],
            "image_rotation": 0,
            "value": {"format": "rle", "rle": list(pack(inside_hw)), "brushlabels": [one.name]},
        }
        for one, inside_hw in regions_of(label_hw, classes)
    ]


LABEL_STUDIO = Format("Label Studio (json)", recognise, read, encode=encode)
LABEL_STUDIO_PNG = Format("Label Studio (PNG export)", recognise_png, read_png)
