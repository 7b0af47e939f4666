"""Labels of people's own images: read them in whatever format they have them, and write them.

tree.py         the files of a folder, and the images and splits that names mean
brush.py        brush strokes of Label Studio
draw.py         regions into labels, and back: Drawing, Region, Polygons, outlines
reading.py      what a format gets and gives: Reading, OwnData, PredictedImage, Format
coco.py ...     one file per format
masks.py        what masks mean that are read as they are
mask_folders.py images and masks of the same names
nearest.py      what a folder of no format holds, and what it lacks
convert.py      draw the masks of a folder once, and keep them in the cache
write.py        write predicted labels, and keep those that were corrected

To add a format: write a file with `recognise`, `read` and perhaps `encode`, and add one line to
FORMATS. The first format of the table that recognises a folder reads it. What `encode` writes is
read back by tests/data/formats.
"""

from pathlib import Path
from typing import NamedTuple

from reconet.data.formats.class_folders import CLASS_FOLDERS
from reconet.data.formats.coco import COCO, COCO_PANOPTIC
from reconet.data.formats.convert import folder_options, is_kept, keep, labels_folder, open_drawn
from reconet.data.formats.cvat import CVAT
from reconet.data.formats.draw import draw
from reconet.data.formats.label_studio import LABEL_STUDIO, LABEL_STUDIO_PNG
from reconet.data.formats.labelme import LABELME
from reconet.data.formats.masks import (
    BLACK_WHITE_MASKS,
    COLOUR_MASKS,
    INDEX_MASKS,
    VOC,
    black_and_white,
)
from reconet.data.formats.nearest import describe
from reconet.data.formats.reading import Format, OwnData, PredictedImage
from reconet.data.formats.tree import read_tree
from reconet.data.formats.via import VIA
from reconet.data.formats.write import WrittenLabels, write_files
from reconet.data.formats.yolo import YOLO
from reconet.data.layout import contents
from reconet.errors import DataError, RecipeError, pick
from reconet.system.progress import SILENT, Progress

FORMATS: dict[str, Format] = {
    "coco": COCO,
    "coco-panoptic": COCO_PANOPTIC,
    "cvat": CVAT,
    "label-studio-png": LABEL_STUDIO_PNG,
    "label-studio": LABEL_STUDIO,
    "labelme": LABELME,
    "via": VIA,
    "yolo": YOLO,
    "voc": VOC,
    "class-folders": CLASS_FOLDERS,
    "colour-masks": COLOUR_MASKS,
    "black-white-masks": BLACK_WHITE_MASKS,
    "index-masks": INDEX_MASKS,
}
WRITTEN = {name.replace("-", ""): one.encode for name, one in FORMATS.items() if one.encode}
OUTLINED = ("coco", "yolo", "labelme")  # of WRITTEN: the others have masks


def check_written(name: str, tolerance: float) -> None:
    """Raise if predictions cannot be written in a format, with such outlines."""
    pick(WRITTEN, name, "format of --as")
    if tolerance and name not in OUTLINED:
        raise RecipeError(
            f"--tolerance simplifies outlines, and {name} is written as masks. It is for "
            f"{', '.join(OUTLINED)}."
        )


class Recognised(NamedTuple):
    """A folder, the format that it has, and what it holds."""

    format: str  # a name of FORMATS
    evidence: str
    others: tuple[str, ...]  # formats that would fit too
    data: OwnData


def read_folder(
    folder: Path, format_name: str | None = None, progress: Progress = SILENT
) -> Recognised:
    """Read the labels of a folder, in the first format that recognises it or in the one named."""
    wanted = {format_name: pick(FORMATS, format_name, "format")} if format_name else FORMATS
    tree = read_tree(folder)
    found: dict[str, str] = {}
    for name, one in wanted.items():
        progress.status(f"is it {one.title}?")
        evidence = one.recognise(tree)
        if evidence is not None:
            found[name] = evidence
    if format_name and not found:
        title = FORMATS[format_name].title
        raise DataError(f"{folder} holds no {title}; it holds {contents(folder)}.")
    if not found:
        raise DataError(
            f"{folder} has no labels of a known format: {describe(tree)} "
            "docs/own-data.md shows each format."
        )
    name, *others = found
    progress.status(f"reading {FORMATS[name].title}")
    return Recognised(name, found[name], tuple(others), FORMATS[name].read(tree, progress))


__all__ = [
    "FORMATS",
    "WRITTEN",
    "Format",
    "PredictedImage",
    "Recognised",
    "WrittenLabels",
    "black_and_white",
    "check_written",
    "draw",
    "folder_options",
    "is_kept",
    "keep",
    "labels_folder",
    "open_drawn",
    "read_folder",
    "write_files",
]
