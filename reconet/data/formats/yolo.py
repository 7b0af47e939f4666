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
from reconet.data.formats.draw import Part, Polygons, outlines
from reconet.data.formats.labelled import (
    Format,
    OwnData,
    PredictedImage,
    Reading,
    TextFile,
    WrittenClass,
    check_name,
    regions_of,
)
from reconet.data.formats.regions import drawn_data
from reconet.data.formats.tree import SPLITS, Tree, read_bytes, split_of_folder
from reconet.data.images.read import read_frame
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
    splits = _splits(tree, path, values)
    images = [image for image in tree.images if not splits or _split(image, splits)]
    texts, found = _label_files(tree, images), Reading(tree, smaller_on_top=True)
    found.declared += names
    progress.start(len(images), "read labels")
    for image in images:
        progress.advance()
        size, text = read_frame(tree.folder / image).upright, texts.get(image)
        parts = [] if text is None else list(_parts(tree, text, names, size, found))
        split = _split(image, splits) or split_of_folder(image)
        found.add(image, text or image, size, parts, split)
    return drawn_data(found, [path])


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
    if isinstance(names, dict):
        keys = sorted(names, key=lambda key: int(key) if key.isdecimal() else -1)
        if keys != [str(number) for number in range(len(keys))]:
            raise DataError(f"{path}: names must be numbered from 0 on.")
        names = [names[key] for key in keys]
    if not isinstance(names, list) or not names:
        raise DataError(f"{path}: names must be a list of class names.")
    return [check_name(str(name), f"{path}, names") for name in names]


def _splits(tree: Tree, path: Path, values: dict[str, Any]) -> dict[Path, str]:
    """Return the folder, or the image, of each split. Folders outside of this one are skipped."""
    found: dict[Path, str] = {}
    for key, split in SPLITS.items():
        value = values.get(key)
        for entry in value if isinstance(value, list) else [value]:
            if not isinstance(entry, str) or not entry.strip():
                continue
            place = _inside(tree, path.parent, entry)
            if place is None:
                continue
            if place.suffix == ".txt":
                found |= dict.fromkeys(_listed(tree, place, split), split)
            else:
                found[place] = split
    return found


def _inside(tree: Tree, near: Path, entry: str) -> Path | None:
    """Return what a path of another machine means here: the longest end of it that exists."""
    parts = [part for part in entry.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    for start in range(len(parts)):
        end = Path(*parts[start:])
        for place in (near / end, end):
            if (tree.folder / place).exists():
                return place
    return None


def _listed(tree: Tree, path: Path, split: str) -> list[Path]:
    lines = read_bytes(tree.folder / path).decode("utf-8", "replace").split("\n")
    found = [tree.find_image(line.strip(), path.parent, split) for line in lines if line.strip()]
    return [image for image in found if image is not None]


def _split(image: Path, splits: dict[Path, str]) -> str:
    for place in (image, *image.parents):
        if place in splits:
            return splits[place]
    return ""


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
    try:
        lines = read_bytes(path).decode("utf-8-sig").splitlines()
    except ValueError as error:
        raise DataError(f"cannot read {path}: {error}.") from error
    for number, line in enumerate(lines, 1):
        words, where = line.split(), f"line {number}"
        if not words:
            continue
        name, values = _parse(words, names, f"{path}, {where}")
        if len(values) == BOX:
            found.leave_out("boxes, where polygons are expected", f"{text}, {where}")
            continue
        if len(values) < 6 or len(values) % 2:
            raise DataError(f"{path}, {where}: {len(values)} numbers are no polygon.")
        ring = [value * (height if i % 2 else width) for i, value in enumerate(values)]
        yield Part(name, Polygons([ring]), where)


def _parse(words: list[str], names: list[str], where: str) -> tuple[str, list[float]]:
    try:
        number, *values = map(float, words)
    except ValueError as error:
        raise DataError(f"{where}: expected a class and numbers.") from error
    if not number.is_integer():  # nor inf, nor nan
        raise DataError(f"{where}: the class {words[0][:20]!r} is no whole number.")
    label = int(number)
    if not 0 <= label < len(names):
        raise DataError(f"{where}: there is no class {label}; names has {len(names)}.")
    if not all(-1 <= value <= 2 for value in values):  # also false for what is no number
        raise DataError(f"{where}: coordinates are fractions from 0 to 1.")
    return names[label], values


def encode(
    images: Iterable[PredictedImage], classes: Sequence[WrittenClass], folder: Path
) -> Iterator[TextFile]:
    """Write the names, and a file for each image. The images belong into images/."""
    names = [f"  {one.number}: {json.dumps(one.name)}\n" for one in classes]
    yield TextFile("data.yaml", "".join(["train: images\nval: images\nnames:\n", *names]))
    for image in images:
        label_hw, lines = image.labels(), []
        for one, inside_hw in regions_of(label_hw, classes):
            for ring_n2 in outlines(inside_hw):
                values = (ring_n2 / label_hw.shape[::-1]).ravel().tolist()
                lines.append(" ".join([str(one.number), *(f"{v:.{DIGITS}f}" for v in values)]))
        text = "".join(f"{line}\n" for line in lines)
        yield TextFile(PurePath("labels", image.name).with_suffix(".txt").as_posix(), text)


YOLO = Format("YOLO segmentation (data.yaml and text files)", recognise, read, encode=encode)
