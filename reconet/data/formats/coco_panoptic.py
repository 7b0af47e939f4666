"""COCO panoptic: a json that names segments, and a PNG for each image with their numbers.

The number of a segment is red + 256 green + 65536 blue. Each pixel has one segment, so that
nothing overlaps. Pixels of no segment, and segments with iscrowd, are void.
"""

from pathlib import Path
from typing import Any

from reconet.data.formats.coco import coco_files, find_images, read_categories
from reconet.data.formats.draw import SegmentFile
from reconet.data.formats.labelled import (
    Format,
    LabelledImage,
    LeftOut,
    OwnData,
    check_dict,
    drawn_data,
)
from reconet.data.formats.splits import split_of_file
from reconet.data.formats.tree import Tree
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress


def recognise(tree: Tree) -> str | None:
    """Look for a json whose annotations have segments_info."""
    found = _files(tree)
    return f"{', '.join(map(str, found))}: segments_info" if found else None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the meaning of all segments."""
    images: list[LabelledImage] = []
    left_out = LeftOut()
    declared: list[str] = []
    files = _files(tree)
    for path, content in files.items():
        names = read_categories(content, tree.folder / path)
        declared += names.values()
        images += _read_file(tree, path, content, names, left_out)
    source = " and ".join(str(tree.folder / path) for path in files)
    return drawn_data(tree, images, declared, left_out.notes(), source)


def _files(tree: Tree) -> dict[Path, dict[str, Any]]:
    return {
        path: content
        for path, content in coco_files(tree).items()
        if any(isinstance(a, dict) and "segments_info" in a for a in content["annotations"])
    }


def _read_file(
    tree: Tree, path: Path, content: dict[str, Any], names: dict[Any, str], left_out: LeftOut
) -> list[LabelledImage]:
    masks = {place for place in tree.images if place.suffix.lower() == ".png"}
    found = find_images(_without_masks(tree, path), path, content, left_out)
    images = []
    for index, annotation in enumerate(content["annotations"]):
        where = f"{tree.folder / path}, annotations[{index}]"
        values = check_dict(annotation, where)
        number, name = values.get("image_id"), values.get("file_name")
        if not isinstance(name, str) or type(number) not in (int, str):
            raise DataError(f"{where}: there is no image_id and file_name.")
        if number not in found:
            continue
        mask = path.parent / path.stem / name
        split = split_of_file(path)
        place = mask if mask in masks else tree.find_image(name, path.parent / path.stem, split)
        if place is None:
            left_out.add(f"annotations of {path} whose PNG is not there", name)
            continue
        image, height, width = found[number]
        segments = _segments(values, names, where)
        drawing = SegmentFile(tree.folder / place, height, width, segments, {})
        images.append(LabelledImage(image, drawing, split))
    return images


def _segments(values: dict[str, Any], names: dict[Any, str], where: str) -> dict[int, str]:
    segments: dict[int, str] = {}
    listed = values.get("segments_info")
    for place, segment in enumerate(listed if isinstance(listed, list) else []):
        one = check_dict(segment, f"{where}, segments_info[{place}]")
        number, category = one.get("id"), one.get("category_id")
        if type(number) is not int or type(category) is not int or category not in names:
            raise DataError(f"{where}, segments_info[{place}]: no id, or no such category.")
        if number in segments:
            raise DataError(f"{where}, segments_info[{place}]: the id {number} is there already.")
        if one.get("iscrowd") != 1:
            segments[number] = names[category]
    return segments


def _without_masks(tree: Tree, path: Path) -> Tree:
    """Leave out the PNGs of segments: images may have the same names."""
    folder = path.parent / path.stem
    return Tree(tree.folder, tuple(file for file in tree.files if not file.is_relative_to(folder)))


COCO_PANOPTIC = Format(
    title="COCO panoptic (json and PNG)",
    recognise=recognise,
    read=read,
    overlaps="none; iscrowd and pixels of no segment are void",
)
