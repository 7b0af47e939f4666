"""VOC trees: JPEGImages, SegmentationClass and lists in ImageSets/Segmentation.

CVAT's "Segmentation mask 1.1" is such a tree, with labelmap.txt. The lists train.txt and val.txt
decide the splits. Masks are read as they are: nothing overlaps, and nothing is converted.
"""

from pathlib import Path
from typing import Any

from reconet.data.formats.labelled import Format, LabelledImage, OwnData
from reconet.data.formats.mask_data import mask_options
from reconet.data.formats.mask_folders import MASKS, Layout
from reconet.data.formats.splits import SPLITS
from reconet.data.formats.tree import Tree
from reconet.data.layout import has_suffix
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress

IMAGES = "JPEGImages"
MASK_FOLDERS = ("SegmentationClassPNG", "SegmentationClass")
LISTS = Path("ImageSets/Segmentation")


def recognise(tree: Tree) -> str | None:
    """Look for SegmentationClass with masks, and lists or images beside it."""
    masks = _mask_folder(tree)
    if masks is None:
        return None
    lists = [path for path in tree.files if path.parent == masks.parent / LISTS]
    if lists or any(path.is_relative_to(masks.parent / IMAGES) for path in tree.images):
        return f"{masks}/ and {len(lists)} lists in {LISTS}/"
    return None


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read where the masks are, what their values mean, and which lists decide the splits."""
    masks = _mask_folder(tree)
    assert masks is not None
    images = masks.parent / IMAGES
    if not any(path.is_relative_to(images) for path in tree.images):
        raise DataError(
            f"{tree.folder / masks} has masks, but there are no images in {tree.folder / images}: "
            "export with images, or put them there."
        )
    image_of = {
        path.relative_to(images).with_suffix(""): path
        for path in tree.images
        if path.is_relative_to(images)
    }
    found = [
        LabelledImage(
            image_of.get(path.relative_to(masks).with_suffix(""), path), tree.folder / path
        )
        for path in tree.files
        if path.is_relative_to(masks) and has_suffix(path, MASKS)
    ]
    options, notes = mask_options(tree, Layout(found, None, ""), progress)
    options |= {"images": str(images), "masks": str(masks)}
    splits = _splits(tree, masks.parent / LISTS)
    if {"train", "val"} <= splits.keys():
        options["splits"] = splits
    return OwnData(folder=tree.folder, options=options, notes=notes)


def _mask_folder(tree: Tree) -> Path | None:
    found = [
        Path(*path.parts[: path.parts.index(name) + 1])
        for name in MASK_FOLDERS
        for path in tree.files
        if name in path.parts[:-1] and has_suffix(path, MASKS)
    ]
    return min(found, key=lambda path: len(path.parts), default=None)


def _splits(tree: Tree, lists: Path) -> dict[str, Any]:
    """Return the list of each split, by names such as train, Train or validation."""
    return {
        SPLITS[path.stem.lower()]: str(path)
        for path in tree.files
        if path.parent == lists and path.suffix == ".txt" and path.stem.lower() in SPLITS
    }


VOC = Format(
    title="VOC tree, or CVAT Segmentation mask 1.1",
    recognise=recognise,
    read=read,
    overlaps="none",
    drawn=False,
)
