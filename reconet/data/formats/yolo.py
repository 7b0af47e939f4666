"""YOLO segmentation: data.yaml with the names, and a text file of polygons for each image.

    0 0.10 0.20 0.30 0.20 0.30 0.40     class, then x y x y ... as fractions of width and height

The text file of images/train/a.jpg is labels/train/a.txt; beside the image will do too. An image
without one, or with an empty one, is all background. The smaller polygon is on top. Lines with a
box only (four numbers) are left out. Predictions are written as a polygon for each connected area.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any

from reconet.data.dataset_file import read_values
from reconet.data.formats.draw import Part, Place, Polygons
from reconet.data.formats.reading import (
    Format,
    OwnData,
    PredictedImage,
    Reading,
    TextFile,
    WrittenClass,
    check_name,
    rings_of,
)
from reconet.data.formats.tree import Tree, split_of_folder
from reconet.data.images.read import read_frame
from reconet.data.layout import SPLIT_NAMES
from reconet.errors import DataError, ReconetError
from reconet.system.progress import SILENT, Progress

BOX = 4
DIGITS = 7  # of a fraction: a hundredth of a pixel, in images of 100,000 pixels


def recognise(tree: Tree) -> str | None:
    """Look for a yaml file with names, and text files beside the images."""
    texts, found = _label_files(tree, tree.images), _named(tree)
    if not found or not texts:
        return None
    first = next(iter(found))
    return f"{first} with names, {len(texts):,} text files for {len(tree.images):,} images"


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the polygons of all images."""
    (path, values), *others = _named(tree).items()
    names = _names(values["names"], tree.folder / path)
    for other, its in others:
        if _names(its["names"], tree.folder / other) != names:
            raise DataError(f"{tree.folder / path} and {other} name different classes: keep one.")
    split_of = _splits(tree, path, values)
    splits = {
        image: next((split_of[p] for p in (image, *image.parents) if p in split_of), "")
        for image in tree.images
    }
    images = [image for image in tree.images if splits[image] or not split_of]
    texts, found = _label_files(tree, images), Reading(tree, smaller_on_top=True)
    found.declare(names, path)
    progress.start(len(images), "read labels")
    for image in images:
        progress.advance()
        size, text = read_frame(tree.folder / image).upright, texts.get(image)
        parts = [] if text is None else list(_parts(tree, text, names, size, found))
        found.add(image, text or image, size, parts, splits[image] or split_of_folder(image))
    return found.result([path])


def _named(tree: Tree) -> dict[Path, dict[str, Any]]:
    """Return the content of the yaml files that name classes."""
    found = {}
    for path in tree.with_suffix(".yaml", ".yml"):
        try:
            values, _ = read_values(tree.folder / path)
        except ReconetError:
            continue
        if isinstance(values, dict) and "names" in values:
            found[path] = values
    return found


def _names(names: Any, path: Path) -> list[str]:
    with Place(path, "names"):
        if isinstance(names, dict):
            names = [names[str(number)] for number in range(len(names))]
        if not isinstance(names, list) or not names:
            raise ValueError("expected a list of class names")
        return [check_name(str(name)) for name in names]


def _splits(tree: Tree, path: Path, values: dict[str, Any]) -> dict[Path, str]:
    """Return the split of folders and images. Folders outside of this one are skipped."""
    found: dict[Path, str] = {}
    for key, split in SPLIT_NAMES.items():
        value = values.get(key)
        for entry in value if isinstance(value, list) else [value]:
            place = _inside(tree, path.parent, entry) if isinstance(entry, str) else None
            if place is not None and place.suffix == ".txt":
                for line in tree.read(place).decode("utf-8", "replace").split("\n"):
                    image = tree.find_image(line.strip(), place.parent, split)
                    if image is not None:
                        found[image] = split
            elif place is not None:
                found[place] = split
    return found


def _inside(tree: Tree, near: Path, entry: str) -> Path | None:
    """Return what a path of another machine means here: the longest end of it that exists."""
    parts = [p for p in entry.strip().replace("\\", "/").split("/") if p not in ("", ".", "..")]
    ends = [Path(*parts[start:]) for start in range(len(parts))]
    places = [place for end in ends for place in (near / end, end)]
    return next((place for place in places if (tree.folder / place).exists()), None)


def _label_files(tree: Tree, images: Sequence[Path]) -> dict[Path, Path]:
    """Return the text file of each image that has one."""
    texts = set(tree.with_suffix(".txt"))
    found = {}
    for image in images:
        parts = list(image.parts)
        places = [image.with_suffix(".txt")]
        if "images" in parts[:-1]:
            last = len(parts) - 2 - parts[-2::-1].index("images")
            places.insert(0, Path(*parts[:last], "labels", *parts[last + 1 :]).with_suffix(".txt"))
        there = [text for text in places if text in texts]
        if there:
            found[image] = there[0]
    return found


def _parts(
    tree: Tree, text: Path, names: list[str], size: tuple[int, int], found: Reading
) -> Iterator[Part]:
    path, (height, width) = tree.folder / text, size
    with Place(path):
        lines = tree.read(text).decode("utf-8-sig").splitlines()
    for index, line in enumerate(lines, 1):
        where = f"line {index}"
        with Place(path, where):
            if not line.strip():
                continue
            number, *values = map(float, line.split())
            if not number.is_integer():  # nor inf, nor nan
                raise ValueError(f"the class {line.split()[0][:20]!r} is no whole number")
            if not 0 <= number < len(names):
                raise ValueError(f"there is no class {number:.0f}; names has {len(names)}")
            if not all(-1 <= value <= 2 for value in values):  # also false for what is no number
                raise ValueError("coordinates are fractions from 0 to 1")
            if len(values) != BOX and (len(values) < 6 or len(values) % 2):
                raise ValueError(f"{len(values)} numbers are no polygon")
        if len(values) == BOX:
            found.leave_out("boxes, where polygons are expected", f"{text}, {where}")
            continue
        ring = [value * (height if i % 2 else width) for i, value in enumerate(values)]
        yield Part(names[int(number)], Polygons([ring]), where)


def encode(
    images: Iterable[PredictedImage], classes: Sequence[WrittenClass], folder: Path
) -> Iterator[TextFile]:
    """Write the names, and a file for each image. The images belong into images/."""
    names = [f"  {one.number}: {json.dumps(one.name)}\n" for one in classes]
    yield "data.yaml", "".join(["train: images\nval: images\nnames:\n", *names])
    for image in images:
        label_hw, lines = image.labels(), []
        for one, ring_n2 in rings_of(label_hw, classes, image.tolerance):
            values = (ring_n2 / label_hw.shape[::-1]).ravel().tolist()
            lines.append(" ".join([str(one.number), *(f"{v:.{DIGITS}f}" for v in values)]) + "\n")
        text = PurePath("labels", image.name).with_suffix(".txt").as_posix()
        yield text, "".join(lines)


YOLO = Format("YOLO segmentation (data.yaml and text files)", recognise, read, encode)
