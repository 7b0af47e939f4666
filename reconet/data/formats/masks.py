"""Folders of masks, which are read as they are: nothing overlaps, and nothing is converted.

numbers           class numbers, and 255 is void. Names come from classes.txt, or are "class 3"
black and white   background and foreground. Greys of smooth edges, half-way between, are void
colours           names come from labelmap.txt, or are the hexadecimal digits of the colours
VOC trees         JPEGImages, SegmentationClass, and lists in ImageSets/Segmentation, which decide
                  the splits. CVAT's "Segmentation mask 1.1" is such a tree, with labelmap.txt
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import lru_cache, partial
from os import cpu_count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reconet.data.dataset import evenly_spaced
from reconet.data.formats.labelled import (
    BACKGROUND,
    BACKGROUND_NAMES,
    VOIDS,
    Format,
    LabelledImage,
    OwnData,
    check_name,
)
from reconet.data.formats.mask_folders import MASKS, find_layout
from reconet.data.formats.regions import stand_upright
from reconet.data.formats.tree import SPLITS, Tree, such_as
from reconet.data.images.read import ColourMaskError, read_mask
from reconet.data.layout import has_suffix, read_lines
from reconet.data.parallel import map_in_processes
from reconet.data.sets.folder_classes import CLASSES, LABEL_MAP, read_label_map
from reconet.data.sets.folder_masks import colour_of, read_colours
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.types import IGNORE

SAMPLED = 12  # masks that are read to recognise a format
MOST_COLOURS = 64
MOST_NUMBERS = 100
NAME_FILES = (CLASSES, "class_names.txt", "labels.txt")
DARK, BRIGHT = 64, 192  # below and from which black and white masks with smooth edges are clear
MOST_GREY = 0.15  # of their pixels
VOC_IMAGES, VOC_LISTS = "JPEGImages", Path("ImageSets/Segmentation")
VOC_MASKS = ("SegmentationClassPNG", "SegmentationClass")
UNNAMED = f"classes have no names: write them into {CLASSES}, one on each line, or --set them"
UNNAMED_COLOURS = (
    f"colours have no names: write them into {LABEL_MAP}, a line such as road:128,64,128:: for each"
)


class Values(NamedTuple):
    """The values of one mask or of many."""

    pixels: Counter[int]  # of each number, or of each colour 0xRRGGBB
    colours: bool = False
    error: str = ""  # of the first mask that cannot be read

    @property
    def kind(self) -> str:
        """Return colour, two (black and white) or index."""
        if self.colours:
            return "colour"
        grey = sum(count for value, count in self.pixels.items() if DARK <= value < BRIGHT)
        ends, total = self.pixels[0] + self.pixels[255], self.pixels.total()
        many = len(self.pixels) > MOST_NUMBERS // 2 and {0, 255} <= self.pixels.keys()
        smooth = many and grey <= MOST_GREY * total and 2 * ends > total
        return "two" if smooth or {0, 255} == self.pixels.keys() else "index"


def recognise(tree: Tree, kind: str) -> str | None:
    """Look for images and masks of the same names, with values of this kind in the masks."""
    layout = find_layout(tree)
    if layout is None or _sample(tree).kind != kind:
        return None
    return f"{layout.folders}: {counted(len(layout.images), 'image')} with a mask"


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read which masks there are, and what their values mean."""
    layout = find_layout(tree)
    if layout is None:
        raise DataError(f"{tree.folder} has no images with masks of the same names.")
    options, notes = _mask_options(tree, layout.images, progress)
    if layout.options is None:
        return OwnData(folder=tree.folder, images=layout.images, options=options, notes=notes)
    return OwnData(folder=tree.folder, options=options | layout.options, notes=notes)


def recognise_voc(tree: Tree) -> str | None:
    """Look for SegmentationClass with masks, and lists or images beside it."""
    masks = _voc_masks(tree)
    if masks is None:
        return None
    lists = [path for path in tree.files if path.parent == masks.parent / VOC_LISTS]
    if lists or any(path.is_relative_to(masks.parent / VOC_IMAGES) for path in tree.images):
        return f"{masks}/ and {len(lists)} lists in {VOC_LISTS}/"
    return None


def read_voc(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read where the masks are, what their values mean, and which lists decide the splits."""
    masks = _voc_masks(tree)
    if masks is None:
        raise DataError(f"{tree.folder} has no masks in {VOC_MASKS[-1]}.")
    images = masks.parent / VOC_IMAGES
    image_of = {
        path.relative_to(images).with_suffix(""): path
        for path in tree.images
        if path.is_relative_to(images)
    }
    if not image_of:
        raise DataError(
            f"{tree.folder / masks} has masks, but there are no images in {tree.folder / images}: "
            "export with images, or put them there."
        )
    found = [
        LabelledImage(
            image_of.get(path.relative_to(masks).with_suffix(""), path), tree.folder / path
        )
        for path in tree.files
        if path.is_relative_to(masks) and has_suffix(path, MASKS)
    ]
    options, notes = _mask_options(tree, found, progress)
    options |= {"images": str(images), "masks": str(masks)}
    splits = {  # by names such as train, Train or validation
        SPLITS[path.stem.lower()]: str(path)
        for path in tree.with_suffix(".txt")
        if path.parent == masks.parent / VOC_LISTS and path.stem.lower() in SPLITS
    }
    if {"train", "val"} <= splits.keys():
        options["splits"] = splits
    return OwnData(folder=tree.folder, options=options, notes=notes)


def _voc_masks(tree: Tree) -> Path | None:
    found = [
        Path(*path.parts[: path.parts.index(name) + 1])
        for name in VOC_MASKS
        for path in tree.files
        if name in path.parts[:-1] and has_suffix(path, MASKS)
    ]
    return min(found, key=lambda path: len(path.parts), default=None)


def _mask_options(
    tree: Tree, images: Sequence[LabelledImage], progress: Progress
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return how masks are read: what their values mean, and whether photographs are turned."""
    _, upright, turned = stand_upright(tree.folder, images)
    masks = [one.labels for one in images if isinstance(one.labels, Path)]
    options, notes = _meaning(tree, masks, progress)
    return options | upright, (*notes, *turned)


def _meaning(
    tree: Tree, masks: Sequence[Path], progress: Progress
) -> tuple[dict[str, Any], list[str]]:
    """Return what the values in masks mean, from a file that tells it or from themselves."""
    listed = _find_named(tree, LABEL_MAP)
    if listed is not None:
        return _label_map_options(tree.folder / listed, _sample(tree)), []
    values = _collect(masks, progress)
    if not values.pixels:
        raise DataError(values.error)
    if values.kind == "colour":
        return _propose_colours(values.pixels, tree.folder), [UNNAMED_COLOURS]
    if values.kind == "two":
        return _propose_two(values.pixels), [UNNAMED]
    named = _names_options(tree, values.pixels)
    return (named, []) if named else (_propose_numbers(values.pixels, tree.folder), [UNNAMED])


@lru_cache(maxsize=4)  # each of the three formats asks
def _sample(tree: Tree) -> Values:
    """Look at a few masks."""
    layout = find_layout(tree)
    masks = [one.labels for one in layout.images if isinstance(one.labels, Path)] if layout else []
    return _collect([masks[i] for i in evenly_spaced(len(masks), SAMPLED)])


def _read_values(path: Path) -> Values:
    """Count the values of one mask."""
    try:
        value_hw = read_mask(path)
        pixels_n = np.bincount(value_hw.ravel(), minlength=256)
        return Values(Counter({n: int(pixels_n[n]) for n in np.flatnonzero(pixels_n).tolist()}))
    except ColourMaskError:
        values, pixels = np.unique(read_colours(path), return_counts=True)
        most = np.argsort(-pixels)[: 4 * MOST_COLOURS]
        counts = zip(values[most].tolist(), pixels[most].tolist(), strict=True)
        return Values(Counter(dict(counts)), colours=True)
    except DataError as error:
        return Values(Counter(), error=str(error))


def _collect(masks: Sequence[Path], progress: Progress = SILENT) -> Values:
    """Count the values of many masks, in several processes."""
    pixels: Counter[int] = Counter()
    colours, error = False, ""
    workers = min(cpu_count() or 1, len(masks) // 64)
    progress.start(len(masks), "read masks")
    with closing(map_in_processes(_read_values, masks, workers)) as results:
        for one in results:
            if one.colours and not colours:
                pixels, colours = Counter(), True  # numbers among colours are indices of palettes
            if one.colours == colours:
                pixels.update(one.pixels)
            error = error or one.error
            progress.advance()
    return Values(pixels, colours, error)


def _find_named(tree: Tree, *names: str) -> Path | None:
    """Find a file of one of these names, the one least deep in the folder."""
    found = [path for path in tree.files if path.name in names]
    return min(found, key=lambda path: (len(path.parts), names.index(path.name)), default=None)


def _label_map_options(path: Path, sampled: Values) -> dict[str, Any]:
    """Return classes and colours of a labelmap.txt. Masks of numbers follow its order."""
    colours = read_label_map(path)
    names = [name for name in colours if name != "ignore"]
    known = {red << 16 | green << 8 | blue for red, green, blue in colours.values()}
    numbers = not sampled.colours and not {n * 0x010101 for n in sampled.pixels} <= known
    if numbers and max(sampled.pixels, default=0) < len(colours):
        return {
            "classes": names,
            "label_map": {str(i): name for i, name in enumerate(colours)} | {"255": "ignore"},
        }
    return {"classes": names, "colours": {name: list(rgb) for name, rgb in colours.items()}}


def _names_options(tree: Tree, numbers: Mapping[int, int]) -> dict[str, Any] | None:
    """Return the classes that a list such as classes.txt names, if it has enough of them."""
    path = _find_named(tree, *NAME_FILES)
    if path is None:
        return None
    names = [check_name(line, str(tree.folder / path)) for line in read_lines(tree.folder / path)]
    if names[0].lower() in VOIDS:  # labelme writes the label -1 first, which is 255 in a mask
        names = names[1:]
    names = [BACKGROUND if name.lower() in BACKGROUND_NAMES else name for name in names]
    highest = max((number for number in numbers if number != IGNORE), default=0)
    if highest >= len(names):
        raise DataError(
            f"{tree.folder / path} names {len(names)} classes, and masks hold the number {highest}."
        )
    return {"classes": names}


def _propose_numbers(pixels: Mapping[int, int], folder: Path) -> dict[str, Any]:
    """Name the numbers in masks. 255 is void."""
    numbers = sorted(number for number in pixels if number != IGNORE)
    if len(numbers) > MOST_NUMBERS:
        raise DataError(
            f"the masks of {folder} hold {len(numbers)} different numbers: are they photographs? "
            f"If they are labels, name them in {CLASSES}, one on each line."
        )
    names = [f"class {number}" for number in numbers]
    if numbers == [0, 1]:
        names = [BACKGROUND, "foreground"]
    if numbers == list(range(len(numbers))):
        return {"classes": names}
    label_map = {str(n): name for n, name in zip(numbers, names, strict=True)}
    void = {str(IGNORE): "ignore"} if IGNORE in pixels else {}
    return {"classes": names, "label_map": label_map | void}


def _propose_two(pixels: Mapping[int, int]) -> dict[str, Any]:
    """Name black and white. Greys half-way between them are void."""
    label_map: dict[str, str] = {"0": BACKGROUND, "255": "foreground"}
    if set(pixels) > {0, 255}:
        label_map = {
            f"0-{DARK - 1}": BACKGROUND,
            f"{DARK}-{BRIGHT - 1}": "ignore",
            f"{BRIGHT}-255": "foreground",
        }
    return {"classes": [BACKGROUND, "foreground"], "label_map": label_map}


def _propose_colours(pixels: Counter[int], folder: Path) -> dict[str, Any]:
    """Name colours by their hexadecimal digits, and black background."""
    if len(pixels) > MOST_COLOURS:
        most = such_as(str(colour_of(code)) for code, _ in pixels.most_common(4))
        raise DataError(
            f"the masks of {folder} hold more than {MOST_COLOURS} colours ({most}): smooth edges "
            f"or compression. If you know the colours, name them in {LABEL_MAP}: name:128,64,128::"
        )
    codes = sorted(pixels, key=lambda code: (code != 0, -pixels[code], code))
    colours = {(f"#{code:06x}" if code else BACKGROUND): list(colour_of(code)) for code in codes}
    return {"classes": list(colours), "colours": colours}


def _format(title: str, kind: str) -> Format:
    return Format(title, partial(recognise, kind=kind), read, drawn=False)


COLOUR_MASKS = _format("masks of colours", "colour")
BLACK_WHITE_MASKS = _format("black and white masks", "two")
INDEX_MASKS = _format("masks of class numbers", "index")
VOC = Format("VOC tree, or CVAT Segmentation mask 1.1", recognise_voc, read_voc, drawn=False)
