"""Recognise common layouts of images and masks, and say by which options they are read."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from reconet.data.layout import IMAGES, has_suffix

IMAGE_FOLDERS = ("images", "image", "imgs", "img", "JPEGImages", "photos", "rgb", "input")
MASK_FOLDERS = (
    "masks",
    "mask",
    "SegmentationClass",
    "labels",
    "label",
    "annotations",
    "gt",
    "segmentation",
)
SPLIT_FOLDERS = ("train", "training")
MASK_SUFFIXES = ("_mask", "-mask", ".mask", "_label", "_labels", "_gt", "_seg", "_segmentation")
MOST_FILES = 200  # that are looked at


def layout_hint(root: Path) -> str:
    """Say which options fit what is in a folder, or return nothing."""
    options = _by_split(root) or _two_folders(root) or _beside(root)
    if not options:
        return ""
    listed = ", ".join(f"{name}={value}" for name, value in options.items())
    name, value = next(iter(options.items()))
    how = f"by --set 'data.options.{name}={value}' and so on, or in a file such as mine.yaml"
    return f"It looks like another layout: set the options {listed} ({how})."


def _by_split(root: Path) -> dict[str, str]:
    """Recognise train/images and train/masks."""
    for split in SPLIT_FOLDERS:
        found = _two_folders(root / split)
        if found:
            return {kind: f'"{{split}}/{name}"' for kind, name in found.items()}
    return {}


def _two_folders(root: Path) -> dict[str, str]:
    """Recognise JPEGImages and SegmentationClass, with the lists of VOC, and other names."""
    names = [path.name for path in _entries(root) if path.is_dir()]
    images, masks = _first(IMAGE_FOLDERS, names), _first(MASK_FOLDERS, names)
    if not images or not masks:
        return {}
    options = {"images": images, "masks": masks}
    lists = "ImageSets/Segmentation"
    if all((root / lists / f"{split}.txt").is_file() for split in ("train", "val")):
        options["splits"] = f'{{"train": "{lists}/train.txt", "val": "{lists}/val.txt"}}'
    return options


def _beside(root: Path) -> dict[str, str]:
    """Recognise x.jpg with x_mask.png beside it, in the root or its folder of images."""
    for folder in (".", *IMAGE_FOLDERS):
        stems = [path.stem for path in _entries(root / folder) if has_suffix(path, IMAGES)]
        for suffix in MASK_SUFFIXES:
            if any(stem.endswith(suffix) and stem.removesuffix(suffix) in stems for stem in stems):
                return {"images": folder, "masks": folder, "mask_suffix": suffix}
    return {}


def _first(known: Sequence[str], names: Iterable[str]) -> str:
    """Return the first known name that is there, as it is spelt there."""
    there = {name.lower(): name for name in names}
    return next((there[one.lower()] for one in known if one.lower() in there), "")


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())[:MOST_FILES] if folder.is_dir() else []
