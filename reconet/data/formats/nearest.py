"""Say what is in a folder that has no known format, and what the nearest format lacks."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from reconet.data.formats.coco import boxes_only
from reconet.data.formats.mask_folders import MASKS_ADD
from reconet.data.formats.tree import IMAGE_FOLDERS, MASK_FOLDERS, Tree, such_as
from reconet.data.layout import IMAGES, has_suffix
from reconet.errors import DataError
from reconet.system.readable import counted

LOOKED_AT = 5  # files that are opened
NUMBERS = re.compile(rb"\d+( +-?[\d.]+){4,}\s*")  # a line of YOLO
ARRAYS = (".npy", ".npz", ".mat", ".h5", ".nii", ".gz")


def describe(tree: Tree) -> str:
    """Return what was seen, and what the nearest known layout lacks, in a few sentences."""
    if not tree.files:
        return "it is empty."
    others = Counter(path.suffix or path.name for path in tree.files if path not in tree.image_set)
    listed = such_as([f"{count:,} {suffix}" for suffix, count in others.most_common(4)])
    pictures = counted(len(tree.images), "picture")
    folders = [f"{folder}/" for folder in tree.folders if folder != Path()]
    where = f" in {such_as(folders)}" if folders else ""
    seen = f"it holds {pictures} and {listed or 'nothing else'}{where}."
    return f"{seen} {next(filter(None, (find(tree) for find in HINTS)))}"


def _boxes_of_voc(tree: Tree) -> str:
    for path in tree.with_suffix(".xml")[:LOOKED_AT]:
        text = _read(tree, path)
        if b"<bndbox>" in text:
            return f"{path} is a Pascal VOC file with boxes only: a segmentation needs areas."
    return ""


def _yolo(tree: Tree) -> str:
    texts = set(tree.with_suffix(".txt"))
    stems = {path.stem for path in tree.images}
    for path in sorted(texts)[: 20 * LOOKED_AT]:
        lines = _read(tree, path).splitlines() if path.stem in stems else []
        if lines and all(map(NUMBERS.fullmatch, lines)):
            boxes = all(len(line.split()) == 5 for line in lines)
            why = ", and its lines are boxes, not polygons" if boxes else ""
            return f"{path} looks like YOLO: there is no data.yaml with `names: [...]`{why}."
    return ""


def _arrays(tree: Tree) -> str:
    found = tree.with_suffix(*ARRAYS)
    if not found:
        return ""
    return f"Masks such as {found[0]} are not read: save them as PNG of class numbers, in masks/."


def _no_pictures(tree: Tree) -> str:
    if tree.images:
        return ""
    return f"Labels need the pictures that they are of ({', '.join(IMAGES)}): put them beside."


def _other_names(tree: Tree) -> str:
    """Compare folders of pictures with folders of masks: their names do not fit."""
    kinds: dict[bool, list[Path]] = {True: [], False: []}
    for path in tree.images:
        told = (p.lower() in MASK_FOLDERS or MASKS_ADD.fullmatch(p) for p in path.parts[:-1])
        kinds[any(told)].append(path)
    masks, images = kinds[True], kinds[False]
    if not masks or not images:
        return ""
    return (
        f"No mask is called like a picture: for {images[0]} expected {images[0].stem}.png, "
        f"perhaps with an ending, and found {masks[0]}."
    )


def _two_folders(tree: Tree) -> str:
    """Find two folders of pictures that share names, and are called otherwise than expected."""
    stems = {
        folder: {path.stem for path in files if has_suffix(path, IMAGES)}
        for folder, files in tree.folders.items()
    }
    pairs: Sequence[tuple[Path, Path]] = [
        (one, other)
        for one in stems
        for other in stems
        if one < other and stems[one] & stems[other]
    ]
    if not pairs:
        return ""
    one, other = pairs[0]
    return (
        f"{one}/ and {other}/ hold files of the same names: call the folder of the pictures "
        f"{IMAGE_FOLDERS[0]}, and that of the masks {MASK_FOLDERS[0]}."
    )


def _pictures_only(tree: Tree) -> str:
    return (
        "Nearest are masks: a PNG of class numbers for each picture, masks/NAME.png for "
        "images/NAME.jpg, or NAME_mask.png beside it."
    )


def _read(tree: Tree, path: Path) -> bytes:
    try:
        return tree.read(path)
    except DataError:
        return b""


HINTS: tuple[Callable[[Tree], str], ...] = (
    boxes_only, _no_pictures, _boxes_of_voc, _yolo, _arrays, _other_names, _two_folders,
    _pictures_only,
)  # fmt: skip
