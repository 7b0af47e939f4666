"""YOLO segmentation: data.yaml with the names, and a text file of polygons for each image.

    0 0.10 0.20 0.30 0.20 0.30 0.40     class, then x y x y ... as fractions of width and height

The text file of images/train/a.jpg is labels/train/a.txt; beside the image will do too. An image
without one, or with an empty one, is all background. The smaller polygon is on top. Lines with a
box only (four numbers) are left out.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reconet.data.dataset_file import read_values
from reconet.data.formats.draw import Drawing, Part, Polygons
from reconet.data.formats.labelled import (
    Format,
    LabelledImage,
    LeftOut,
    OwnData,
    check_name,
    check_parts,
    drawn_data,
)
from reconet.data.formats.splits import SPLITS, split_of_folder
from reconet.data.formats.tree import Tree, read_bytes
from reconet.data.images.read import read_frame
from reconet.errors import DataError, ReconetError
from reconet.system.progress import SILENT, Progress

BOX = 4
MOST_LINES = 100_000


def recognise(tree: Tree) -> str | None:
    """Look for a yaml file with names, and text files beside the images."""
    for path in tree.with_suffix(".yaml", ".yml"):
        try:
            values, _ = read_values(tree.folder / path)
        except ReconetError:
            continue
        labels = _label_files(tree, tree.images)
        if isinstance(values, dict) and "names" in values and labels:
            return f"{path} with names, {len(labels):,} text files for {len(tree.images):,} images"
    return None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read the polygons of all images."""
    found = [p for p in tree.with_suffix(".yaml", ".yml") if _has_names(tree.folder / p)]
    path = found[0]
    values, _ = read_values(tree.folder / path)
    names = _names(values["names"], tree.folder / path)
    for other in found[1:]:
        if _names(read_values(tree.folder / other)[0]["names"], tree.folder / other) != names:
            raise DataError(f"{tree.folder / path} and {other} name different classes: keep one.")
    splits = _splits(tree, path, values)
    images = [image for image in tree.images if not splits or _split(image, splits)]
    texts = _label_files(tree, images)
    left_out, read_images = LeftOut(), []
    progress.start(len(images), "read labels")
    for image in images:
        progress.advance()
        height, width = read_frame(tree.folder / image).upright
        text = texts.get(image)
        parts: list[Part] = []
        if text is not None:
            parts = _read_text(tree.folder / text, text, names, (height, width), left_out)
        source = str(tree.folder / (text or image))
        drawing = Drawing(source, height, width, parts, {}, 0, smaller_on_top=True)
        split = _split(image, splits) or split_of_folder(image)
        read_images.append(LabelledImage(image, drawing, split))
    source = str(tree.folder / path)
    return drawn_data(tree, read_images, names, left_out.notes(), source)


def _has_names(path: Path) -> bool:
    try:
        values, _ = read_values(path)
    except ReconetError:
        return False
    return isinstance(values, dict) and "names" in values


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


def _read_text(
    path: Path, short: Path, names: list[str], size: tuple[int, int], left_out: LeftOut
) -> list[Part]:
    height, width = size
    try:
        lines = read_bytes(path).decode("utf-8-sig").splitlines()
    except ValueError as error:
        raise DataError(f"cannot read {path}: {error}.") from error
    parts = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        where = f"line {number}"
        name, values = _parse(words, names, f"{path}, {where}")
        if len(values) == BOX:
            left_out.add("boxes, where polygons are expected", f"{short}, {where}")
            continue
        if len(values) < 6 or len(values) % 2:
            raise DataError(f"{path}, {where}: {len(values)} numbers are no polygon.")
        ring = [value * (height if i % 2 else width) for i, value in enumerate(values)]
        parts.append(Part(name, Polygons([ring]), where))
    return list(check_parts(parts, str(path)))


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


YOLO = Format(
    title="YOLO segmentation (data.yaml and text files)",
    recognise=recognise,
    read=read,
    overlaps="smaller on top",
)
