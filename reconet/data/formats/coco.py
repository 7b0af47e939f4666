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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from reconet.data.formats.draw import Part, Patch, Place, Polygons, Region, SegmentFile
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
from reconet.data.formats.tree import Tree, split_of_file
from reconet.data.prepare import decode
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted

LISTS = ("images", "annotations", "categories")
CROWD = "ignore"
MOST_FILES = 64  # json files that are looked into
USUAL = "instances"
ABOUT = {"description": "Predictions of reconet, to be corrected", "version": "1.0"}

Content = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class Runs(Region):
    """Run lengths, column by column, plain or compressed."""

    counts: list[int] | str
    size: list[int]

    @property
    def end(self) -> tuple[float, float]:
        """Return the size of the image that they are of."""
        return self.size[1], self.size[0]

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels of the runs."""
        inside_hw = decode({"counts": self.counts, "size": self.size}, height, width)
        return Patch(0, 0, inside_hw)


def _lists(tree: Tree) -> dict[Path, Content]:
    """Read the json files that have COCO's three lists."""
    found = {}
    for path in tree.with_suffix(".json")[:MOST_FILES]:
        content = tree.try_json(path)
        values = content if isinstance(content, dict) else {}
        if all(isinstance(values.get(name), list) for name in LISTS):
            found[path] = values
    return found


def boxes_only(tree: Tree) -> str:
    """Say which json has boxes and no areas, if there is one."""
    for path, content in _lists(tree).items():
        boxes = sum(isinstance(one, dict) and "bbox" in one for one in content["annotations"])
        return (
            f"{path} is COCO with boxes only ({counted(boxes, 'box', 'boxes')}, no segmentation): "
            "export polygons or run lengths."
            if boxes
            else f"{path} is COCO, and none of its annotations has a segmentation."
        )
    return ""


def _files(tree: Tree, key: str) -> dict[Path, Content]:
    """Read the json files that have COCO's lists, and annotations with this key."""
    found = {
        path: content
        for path, content in _lists(tree).items()
        if any(isinstance(one, dict) and one.get(key) for one in content["annotations"])
    }
    return {path: found[path] for path in found if path.name.startswith(USUAL)} or found


def recognise_instances(tree: Tree) -> str | None:
    """Look for a json with COCO's three lists and segmentations in it."""
    found = _files(tree, "segmentation")
    annotations = sum(len(content["annotations"]) for content in found.values())
    names = ", ".join(map(str, found))
    return f"{names}: {counted(annotations, 'annotation')}" if found else None


def recognise_panoptic(tree: Tree) -> str | None:
    """Look for a json whose annotations have segments_info."""
    found = _files(tree, "segments_info")
    return f"{', '.join(map(str, found))}: segments_info" if found else None


def read_instances(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read all annotations. Images that are not in the folder are left out."""
    files, found = _files(tree, "segmentation"), Reading(tree, smaller_on_top=True)
    for path, content in files.items():
        place, parts = tree.folder / path, defaultdict(list)
        names, images = _read_lists(tree, path, content, found)
        for index, one in enumerate(content["annotations"]):
            where = f"annotations[{index}]"
            with Place(place, where):
                number, category = one["image_id"], one["category_id"]
                if number not in images:
                    raise ValueError(f"no image has the id {number!r}")
                if category not in names:
                    raise ValueError(f"no category has the id {category!r}")
                region = _region(one.get("segmentation")) if images[number] else None
            crowd = one.get("iscrowd") == 1
            if region is not None:
                name = CROWD if crowd else names[category]
                parts[number].append(Part(name, region, where, below=crowd))
            elif images[number]:
                found.leave_out(f"annotations of {path} without an area", where)
        for number, image in images.items():
            if image:
                found.add(image[0], path, image[1], parts[number], split_of_file(path))
    return found.result(files)


def read_panoptic(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the meaning of all segments."""
    files, found = _files(tree, "segments_info"), Reading(tree)
    for path, content in files.items():
        folder = path.parent / path.stem  # its images may have the names of the PNGs
        others = tuple(file for file in tree.files if not file.is_relative_to(folder))
        names, images = _read_lists(Tree(tree.folder, others), path, content, found)
        for index, one in enumerate(content["annotations"]):
            with Place(tree.folder / path, f"annotations[{index}]"):
                name, image = str(one["file_name"]), images.get(one["image_id"])
                segments = _segments(one.get("segments_info"), names)
            if not image:
                continue
            mask: Path | None = folder / name
            if mask not in tree.image_set:
                mask = tree.find_image(name, folder, split_of_file(path))
            if mask is None:
                found.leave_out(f"annotations of {path} whose PNG is not there", name)
                continue
            source = str(tree.folder / mask)
            drawing = SegmentFile(tree.folder / mask, *image[1], segments, {})
            found.add_labels(image[0], source, drawing, split_of_file(path))
    return found.result(files)


def _read_lists(
    tree: Tree, path: Path, content: Content, found: Reading
) -> tuple[dict[Any, str], dict[Any, tuple[Path, tuple[int, int]] | None]]:
    """Return categories and images by their ids. None is an image that is not in the folder."""
    names: dict[Any, str] = {}
    images: dict[Any, tuple[Path, tuple[int, int]] | None] = {}
    for index, one in enumerate(content["categories"]):
        with Place(tree.folder / path, f"categories[{index}]"):
            number, name = one["id"], check_name(one["name"])
            if names.setdefault(number, name) != name:
                raise ValueError(f"the id {number!r} is that of {names[number]!r} already")
    for index, one in enumerate(content["images"]):
        with Place(tree.folder / path, f"images[{index}]"):
            number, name = one["id"], str(one["file_name"])
            if number in images:
                raise ValueError(f"the id {number!r} is there more than once")
            image, images[number] = _find(tree, name, path), None
            if image is not None:
                images[number] = image, check_size(one["height"], one["width"])
            else:
                found.leave_out(f"images of {path} that are not there", name)
    found.declare([*names.values()], path)
    return names, images


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


def _region(segmentation: Any) -> Region | None:
    if isinstance(segmentation, dict):
        counts, size = segmentation["counts"], segmentation["size"]
        plain = isinstance(counts, list) and all(type(n) is int and n >= 0 for n in counts)
        if not (plain or isinstance(counts, str)) or [type(n) for n in size] != [int, int]:
            raise ValueError("run lengths need counts and size")
        return Runs(counts, size)
    if not segmentation:
        return None
    if not isinstance(segmentation, list):
        raise ValueError("the segmentation is neither polygons nor run lengths")
    rings = segmentation if isinstance(segmentation[0], list) else [segmentation]
    areas = [ring for ring in map(check_ring, rings) if len(ring) >= 6]
    return Polygons(areas) if areas else None


def _segments(listed: Any, names: dict[Any, str]) -> dict[int, str]:
    segments: dict[int, str] = {}
    for place, one in enumerate(listed or ()):
        number = one["id"]
        if type(number) is not int or one["category_id"] not in names:
            raise ValueError(f"segments_info[{place}] has no id, or no such category")
        if number in segments:
            raise ValueError(f"segments_info[{place}]: the id {number} is there already")
        if one.get("iscrowd") != 1:
            segments[number] = names[one["category_id"]]
    return segments


def encode(
    images: Iterable[PredictedImage], classes: Sequence[WrittenClass], folder: Path
) -> Iterator[TextFile]:
    """Write one file for all images."""
    listed: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, image in enumerate(images, 1):
        label_hw = image.labels()
        height, width = label_hw.shape
        listed.append({"id": number, "file_name": image.name, "width": width, "height": height})
        for one, ring_n2 in rings_of(label_hw, classes, image.tolerance):
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": one.number + 1,
                    "segmentation": [ring_n2.ravel().tolist()],
                    "area": round(cv2.contourArea(ring_n2.astype(np.float32))),
                    "bbox": [*ring_n2.min(0).tolist(), *np.ptp(ring_n2, 0).tolist()],
                    "iscrowd": 0,
                }
            )
    categories = [{"id": one.number + 1, "name": one.name} for one in classes]
    content = {"info": ABOUT, "images": listed, "annotations": annotations}
    yield "annotations.json", json.dumps({**content, "categories": categories})


COCO = Format("COCO instances (json)", recognise_instances, read_instances, encode)
COCO_PANOPTIC = Format("COCO panoptic (json and PNG)", recognise_panoptic, read_panoptic)
