"""COCO: a json with images, annotations and categories. Instances, and panoptic with its PNGs.

Instances are polygons and run lengths. Where they overlap, the smaller one is on top, for their
order means nothing; of two equally large ones, the later. An annotation with iscrowd is void, and
lies under all others. Pixels in no annotation are background. Annotations with a box only are left
out. Predictions are written as a polygon for each connected area.

A panoptic json names the segments of a PNG for each image: red + 256 green + 65536 blue. Pixels of
no segment, and segments with iscrowd, are void.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from reconet.data.formats.draw import Part, Polygons, Region, Runs, SegmentFile, outlines
from reconet.data.formats.labelled import (
    Format,
    LabelledImage,
    OwnData,
    PredictedImage,
    Reading,
    TextFile,
    WrittenClass,
    check_dict,
    check_name,
    check_ring,
    check_size,
    regions_of,
)
from reconet.data.formats.regions import drawn_data
from reconet.data.formats.tree import Tree, split_of_file
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted

LISTS = ("images", "annotations", "categories")
CROWD = "ignore"
MOST_FILES = 64  # json files that are looked into
USUAL = "instances"
ABOUT = {"description": "Predictions of reconet, to be corrected", "version": "1.0"}

Files = dict[Path, dict[str, Any]]


class _File:
    """What is the same in both kinds: categories and images."""

    def __init__(self, tree: Tree, path: Path, content: dict[str, Any], found: Reading) -> None:
        self.path, self.place = path, tree.folder / path
        self.split = split_of_file(path)
        self.names = _read_categories(content["categories"], self.place)
        found.declared += self.names.values()
        self.images: dict[int | str, tuple[Path, tuple[int, int]]] = {}
        for index, image in enumerate(content["images"]):
            where = f"{self.place}, images[{index}]"
            values = check_dict(image, where)
            number, name = _id(values, "id", where), values.get("file_name")
            if not isinstance(name, str):
                raise DataError(f"{where}: there is no file_name.")
            if number in self.images:
                raise DataError(f"{where}: the id {number!r} is there more than once.")
            place = _find(tree, name, path)
            if place is None:
                found.leave_out(f"images of {path} that are not there", name)
            else:
                size = check_size(values.get("height"), values.get("width"), where)
                self.images[number] = place, size


def recognise_instances(tree: Tree) -> str | None:
    """Look for a json with COCO's three lists and segmentations in it."""
    found = _instance_files(tree)
    annotations = sum(len(content["annotations"]) for content in found.values())
    return f"{_listed(found)}: {counted(annotations, 'annotation')}" if found else None


def recognise_panoptic(tree: Tree) -> str | None:
    """Look for a json whose annotations have segments_info."""
    found = _panoptic_files(tree)
    return f"{_listed(found)}: segments_info" if found else None


def read_instances(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read all annotations. Images that are not in the folder are left out."""
    files, found = _instance_files(tree), Reading(tree, smaller_on_top=True)
    for path, content in files.items():
        _read_instances(_File(tree, path, content, found), content, found)
    return drawn_data(found, files)


def read_panoptic(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the meaning of all segments."""
    files, found = _panoptic_files(tree), Reading(tree)
    for path, content in files.items():
        masks = path.parent / path.stem  # images may have the same names
        others = tuple(file for file in tree.files if not file.is_relative_to(masks))
        file = _File(Tree(tree.folder, others), path, content, found)
        _read_panoptic(tree, file, content["annotations"], found)
    return drawn_data(found, files)


def _listed(files: Files) -> str:
    return ", ".join(map(str, files))


def _files(tree: Tree) -> Files:
    """Read the json files that have COCO's lists."""
    found: Files = {}
    for path in tree.with_suffix(".json")[:MOST_FILES]:
        content = tree.try_json(path)
        if isinstance(content, dict) and all(isinstance(content.get(k), list) for k in LISTS):
            found[path] = content
    return found


def _instance_files(tree: Tree) -> Files:
    found = {
        path: content
        for path, content in _files(tree).items()
        if any(isinstance(a, dict) and a.get("segmentation") for a in content["annotations"])
    }
    return {path: found[path] for path in found if path.name.startswith(USUAL)} or found


def _panoptic_files(tree: Tree) -> Files:
    return {
        path: content
        for path, content in _files(tree).items()
        if any(isinstance(a, dict) and "segments_info" in a for a in content["annotations"])
    }


def _read_categories(categories: Sequence[object], place: Path) -> dict[int | str, str]:
    """Return the name of each category by its id."""
    names: dict[int | str, str] = {}
    for index, category in enumerate(categories):
        where = f"{place}, categories[{index}]"
        values = check_dict(category, where)
        number, name = _id(values, "id", where), check_name(values.get("name"), where)
        if names.setdefault(number, name) != name:
            raise DataError(f"{where}: the id {number!r} is that of {names[number]!r} already.")
    return names


def _read_instances(file: _File, content: dict[str, Any], found: Reading) -> None:
    known = {values.get("id") for values in content["images"]}
    parts: dict[int | str, list[Part]] = defaultdict(list)
    for index, annotation in enumerate(content["annotations"]):
        where = f"annotations[{index}]"
        full = f"{file.place}, {where}"
        values = check_dict(annotation, full)
        number, category = _id(values, "image_id", full), _id(values, "category_id", full)
        if number not in known:
            raise DataError(f"{full}: no image has the id {number!r}.")
        if category not in file.names:
            raise DataError(f"{full}: no category has the id {category!r}.")
        if number not in file.images:
            continue
        region = _region(values.get("segmentation"), full)
        if region is None:
            found.leave_out(f"annotations of {file.path} without an area", where)
            continue
        crowd = values.get("iscrowd") == 1
        name = CROWD if crowd else file.names[category]
        parts[number].append(Part(name, region, where, below=crowd))
    for number, (image, size) in file.images.items():
        found.add(image, file.path, size, parts[number], file.split)


def _region(segmentation: object, where: str) -> Region | None:
    if isinstance(segmentation, dict):
        counts, size = segmentation.get("counts"), segmentation.get("size")
        plain = isinstance(counts, list) and all(type(n) is int and n >= 0 for n in counts)
        sized = isinstance(size, list) and [type(n) for n in size] == [int, int]
        if not (plain or isinstance(counts, str)) or not sized:
            raise DataError(f"{where}: run lengths need counts and size.")
        return Runs(counts, size)  # type: ignore[arg-type]
    if not segmentation:
        return None
    if not isinstance(segmentation, list):
        raise DataError(f"{where}: the segmentation is neither polygons nor run lengths.")
    rings = segmentation if isinstance(segmentation[0], list) else [segmentation]
    areas = [ring for ring in (check_ring(ring, where) for ring in rings) if len(ring) >= 6]
    return Polygons(areas) if areas else None


def _read_panoptic(tree: Tree, file: _File, annotations: list[Any], found: Reading) -> None:
    for index, annotation in enumerate(annotations):
        where = f"{file.place}, annotations[{index}]"
        values = check_dict(annotation, where)
        number, name = values.get("image_id"), values.get("file_name")
        if not isinstance(name, str) or type(number) not in (int, str):
            raise DataError(f"{where}: there is no image_id and file_name.")
        if number not in file.images:
            continue
        folder = file.path.parent / file.path.stem
        mask: Path | None = folder / name
        if mask not in tree.image_set:
            mask = tree.find_image(name, folder, file.split)
        if mask is None:
            found.leave_out(f"annotations of {file.path} whose PNG is not there", name)
            continue
        image, size = file.images[number]
        segments = _segments(values, file.names, where)
        drawing = SegmentFile(tree.folder / mask, *size, segments, {})
        found.images.append(LabelledImage(image, drawing, file.split))


def _segments(values: dict[str, Any], names: dict[int | str, str], where: str) -> dict[int, str]:
    segments: dict[int, str] = {}
    listed = values.get("segments_info")
    for place, segment in enumerate(listed if isinstance(listed, list) else []):
        full = f"{where}, segments_info[{place}]"
        one = check_dict(segment, full)
        number, category = one.get("id"), one.get("category_id")
        if type(number) is not int or type(category) is not int or category not in names:
            raise DataError(f"{full}: no id, or no such category.")
        if number in segments:
            raise DataError(f"{full}: the id {number} is there already.")
        if one.get("iscrowd") != 1:
            segments[number] = names[category]
    return segments


def _find(tree: Tree, name: str, path: Path) -> Path | None:
    """Find an image. Where folders have images of one name, the split of the json decides.

    val2017 is the folder of instances_val2017.json, and images/val that of val.json.
    """
    split, last = split_of_file(path), path.stem.rpartition("_")[2]
    for folder in (path.parent, *tree.folders):
        named = folder.name == last or (split and folder.name.lower().startswith(split))
        if (folder == path.parent or (folder.name and named)) and folder / name in tree.image_set:
            return folder / name
    return tree.find_image(name, path.parent, split)


def _id(values: dict[str, Any], name: str, where: str) -> int | str:
    number = values.get(name)
    if not isinstance(number, int | str) or isinstance(number, bool):
        raise DataError(f"{where}: there is no {name}.")
    return number


def encode(
    images: Iterable[PredictedImage], classes: Sequence[WrittenClass], folder: Path
) -> Iterator[TextFile]:
    """Write one file for all images."""
    listed: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for image in images:
        label_hw = image.labels()
        height, width = label_hw.shape
        number = len(listed) + 1
        listed.append({"id": number, "file_name": image.name, "width": width, "height": height})
        for one, inside_hw in regions_of(label_hw, classes):
            for ring_n2 in outlines(inside_hw):
                annotations.append(
                    {
                        "id": len(annotations) + 1,
                        "image_id": number,
                        "category_id": one.number + 1,
                        "segmentation": [ring_n2.ravel().tolist()],
                        "area": round(cv2.contourArea(ring_n2)),
                        "bbox": [*ring_n2.min(0).tolist(), *np.ptp(ring_n2, 0).tolist()],
                        "iscrowd": 0,
                    }
                )
    categories = [{"id": one.number + 1, "name": one.name} for one in classes]
    content = {"info": ABOUT, "images": listed, "annotations": annotations}
    yield TextFile("annotations.json", json.dumps({**content, "categories": categories}))


COCO = Format("COCO instances (json)", recognise_instances, read_instances, encode=encode)
COCO_PANOPTIC = Format("COCO panoptic (json and PNG)", recognise_panoptic, read_panoptic)
