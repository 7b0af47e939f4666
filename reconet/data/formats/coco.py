"""COCO instances: a json with images, annotations and categories.

Polygons and run lengths are read. An annotation with iscrowd is void, and lies under all others.
Where annotations overlap, the smaller one is on top, for their order means nothing; of two equally
large ones, the later. Pixels in no annotation are background. Annotations with a box only are left
out.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

from reconet.data.formats.draw import Drawing, Part, Region, Runs
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
    polygons_of,
)
from reconet.data.formats.splits import split_of_file
from reconet.data.formats.tree import Tree
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted

LISTS = ("images", "annotations", "categories")
CROWD = "ignore"
MOST_FILES = 64  # json files that are looked into
USUAL = "instances"


def recognise(tree: Tree) -> str | None:
    """Look for a json with COCO's three lists and segmentations in it."""
    found = _files(tree)
    if not found:
        return None
    annotations = sum(len(content["annotations"]) for content in found.values())
    return f"{', '.join(map(str, found))}: {counted(annotations, 'annotation')}"


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read all annotations. Images that are not in the folder are left out."""
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


def coco_files(tree: Tree) -> dict[Path, dict[str, Any]]:
    """Read the json files that have COCO's lists."""
    found: dict[Path, dict[str, Any]] = {}
    for path in tree.with_suffix(".json")[:MOST_FILES]:
        try:
            content = tree.read_json(path)
        except DataError:
            continue  # the format that this file has will tell
        if isinstance(content, dict) and all(isinstance(content.get(k), list) for k in LISTS):
            found[path] = content
    return found


def read_categories(content: dict[str, Any], path: Path) -> dict[Any, str]:
    """Return the name of each category by its id."""
    names: dict[Any, str] = {}
    for index, category in enumerate(content["categories"]):
        where = f"{path}, categories[{index}]"
        values = check_dict(category, where)
        number, name = _id(values, "id", where), check_name(values.get("name"), where)
        if names.setdefault(number, name) != name:
            raise DataError(f"{where}: the id {number!r} is that of {names[number]!r} already.")
    return names


def find_images(
    tree: Tree, path: Path, content: dict[str, Any], left_out: LeftOut
) -> dict[Any, tuple[Path, int, int]]:
    """Return file, height and width of each image by its id."""
    found: dict[Any, tuple[Path, int, int]] = {}
    for index, image in enumerate(content["images"]):
        where = f"{tree.folder / path}, images[{index}]"
        values = check_dict(image, where)
        number, name = _id(values, "id", where), values.get("file_name")
        if not isinstance(name, str):
            raise DataError(f"{where}: there is no file_name.")
        if number in found:
            raise DataError(f"{where}: the id {number!r} is there more than once.")
        place = _find(tree, name, path)
        if place is None:
            left_out.add(f"images of {path} that are not there", name)
        else:
            found[number] = (place, *check_size(values.get("height"), values.get("width"), where))
    return found


def _files(tree: Tree) -> dict[Path, dict[str, Any]]:
    found = {
        path: c for path, c in coco_files(tree).items() if any(map(_is_region, c["annotations"]))
    }
    usual = {path: content for path, content in found.items() if path.name.startswith(USUAL)}
    return usual or found


def _is_region(annotation: object) -> bool:
    return isinstance(annotation, dict) and bool(annotation.get("segmentation"))


def _read_file(
    tree: Tree, path: Path, content: dict[str, Any], names: dict[Any, str], left_out: LeftOut
) -> list[LabelledImage]:
    found = find_images(tree, path, content, left_out)
    known = {values.get("id") for values in content["images"]}
    parts: dict[Any, list[Part]] = defaultdict(list)
    for index, annotation in enumerate(content["annotations"]):
        where = f"annotations[{index}]"
        full = f"{tree.folder / path}, {where}"
        values = check_dict(annotation, full)
        number = _id(values, "image_id", full)
        if number not in known:
            raise DataError(f"{full}: no image has the id {number!r}.")
        category = _id(values, "category_id", full)
        if category not in names:
            raise DataError(f"{full}: no category has the id {category!r}.")
        if number not in found:
            continue
        region = _region(values.get("segmentation"), full)
        if region is None:
            left_out.add(f"annotations of {path} without an area", where)
            continue
        crowd = values.get("iscrowd") == 1
        name = CROWD if crowd else names[category]
        parts[number].append(Part(name, region, where, below=crowd))
    split = split_of_file(path)
    return [
        LabelledImage(
            image,
            Drawing(
                str(tree.folder / path), height, width,
                check_parts(parts[number], f"{tree.folder / path}, image {number}"),
                {}, 0, smaller_on_top=True,
            ),
            split,
        )
        for number, (image, height, width) in found.items()
    ]  # fmt: skip


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
    return polygons_of([check_ring(ring, where) for ring in rings])


def _find(tree: Tree, name: str, path: Path) -> Path | None:
    """Find an image. Where folders have images of one name, the split of the json decides."""
    split = split_of_file(path)
    for folder in dict.fromkeys([path.parent, *_split_folders(tree, path.stem, split)]):
        place = folder / name
        if place in tree.image_set:
            return place
    return tree.find_image(name, path.parent, split)


def _split_folders(tree: Tree, stem: str, split: str) -> list[Path]:
    """List the folders that a json is about: val2017 for instances_val2017, images/val for val."""
    last = stem.rpartition("_")[2]
    return [
        folder
        for folder in tree.folders
        if folder.name
        and (folder.name == last or (split and folder.name.lower().startswith(split)))
    ]


def _id(values: dict[str, Any], name: str, where: str) -> int | str:
    number = values.get(name)
    if type(number) not in (int, str):
        raise DataError(f"{where}: there is no {name}.")
    return number  # type: ignore[return-value]


COCO = Format(
    title="COCO instances (json)",
    recognise=recognise,
    read=read,
    overlaps="smaller on top; iscrowd is void, below all",
)
