"""Folders of masks, which are read as they are: nothing overlaps, and nothing is converted.

numbers           class numbers, and 255 is void. Names come from classes.txt, or are "class 3".
                  Trimaps, and trees like those of Cityscapes and ADE20K, keep their meaning
black and white   background and foreground, or two names of classes.txt. Greys of smooth edges,
                  half-way between, are void
colours           names come from labelmap.txt or class_dict.csv, or are the digits of the colours
VOC trees         JPEGImages, SegmentationClass, and lists in ImageSets/Segmentation, which decide
                  the splits. CVAT's "Segmentation mask 1.1" is such a tree, with labelmap.txt
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache, partial
from os import cpu_count
from pathlib import Path
from typing import Any, NamedTuple

from reconet.data.classes import BACKGROUND
from reconet.data.dataset import evenly_spaced
from reconet.data.formats.draw import Place
from reconet.data.formats.mask_folders import find_layout
from reconet.data.formats.reading import (
    BACKGROUND_NAMES,
    VOIDS,
    Format,
    LabelledImage,
    OwnData,
    check_name,
    stand_upright,
)
from reconet.data.formats.tree import Tree, such_as
from reconet.data.images.read import ColourMaskError, read_mask
from reconet.data.labels import count_values
from reconet.data.layout import MASKS, has_suffix, read_lines, split_called
from reconet.data.parallel import map_in_processes
from reconet.data.sets.ade20k import ADE20K
from reconet.data.sets.cityscapes import CITYSCAPES, LABEL_IDS
from reconet.data.sets.folder_masks import (
    CLASS_DICT,
    CLASSES,
    LABEL_MAP,
    code_of,
    colour_of,
    read_colours,
    read_label_map,
)
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
ADE_NAMES = "objectInfo150.txt"
PUBLIC = "numbers have the meaning that they have in {}: a classes.txt would name them otherwise"
UNNAMED = f"classes have no names: write them into {CLASSES}, one on each line, or --set them"
UNNAMED_COLOURS = (
    f"colours have no names: write them into {LABEL_MAP}, a line such as road:128,64,128:: for each"
)
Read = tuple[dict[str, Any], list[str]]  # options of `folder`, and notes


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
        return "two" if black_and_white(self.pixels) else "index"


def black_and_white(pixels: Counter[int]) -> dict[str, str] | None:
    """Return a label map of black and white, if masks hold these and perhaps smooth edges.

    Greys half-way between them are void.
    """
    if pixels.keys() == {0, 255}:
        return {"0": BACKGROUND, "255": "foreground"}
    grey = sum(count for value, count in pixels.items() if DARK <= value < BRIGHT)
    many = len(pixels) > MOST_NUMBERS // 2 and {0, 255} <= pixels.keys()
    clear = 2 * (pixels[0] + pixels[255]) > pixels.total()
    if many and clear and grey <= MOST_GREY * pixels.total():
        return {
            f"0-{DARK - 1}": BACKGROUND,
            f"{DARK}-{BRIGHT - 1}": "ignore",
            f"{BRIGHT}-255": "foreground",
        }
    return None


def recognise(tree: Tree, kind: str) -> str | None:
    """Look for images and masks of the same names, with values of this kind in the masks."""
    layout = find_layout(tree)
    if layout is None or _sample(tree).kind != kind:
        return None
    return f"{layout.folders}: {counted(len(layout.images), 'image')} with a mask"


@lru_cache(maxsize=4)  # each of the three formats asks
def _sample(tree: Tree) -> Values:
    """Look at a few masks."""
    layout = find_layout(tree)
    images = layout.images if layout else []
    return collect([images[i] for i in evenly_spaced(len(images), SAMPLED)])


def read(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read which masks there are, and what their values mean."""
    layout = find_layout(tree)
    if layout is None:
        raise DataError(f"{tree.folder} has no images with masks of the same names.")
    options, notes = _mask_options(tree, layout.images, progress)
    images = layout.images if layout.options is None else ()
    options |= layout.options or {}
    return OwnData(folder=tree.folder, images=images, options=options, notes=notes)


def _voc_masks(tree: Tree) -> Path | None:
    found = [
        Path(*path.parts[: path.parts.index(name) + 1])
        for name in VOC_MASKS
        for path in tree.files
        if name in path.parts[:-1] and has_suffix(path, MASKS)
    ]
    return min(found, key=lambda path: len(path.parts), default=None)


def recognise_voc(tree: Tree) -> str | None:
    """Look for SegmentationClass with masks, and lists or images beside it."""
    masks = _voc_masks(tree)
    if masks is None:
        return None
    lists = tree.folders.get(masks.parent / VOC_LISTS, [])
    if lists or any(path.is_relative_to(masks.parent / VOC_IMAGES) for path in tree.images):
        return f"{masks}/ and {len(lists)} lists in {VOC_LISTS}/"
    return None


def read_voc(tree: Tree, progress: Progress = SILENT) -> OwnData:
    """Read where the masks are, what their values mean, and which lists decide the splits."""
    masks = _voc_masks(tree)
    if masks is None:
        raise DataError(f"{tree.folder} has no masks in {VOC_MASKS[-1]}.")
    images = masks.parent / VOC_IMAGES
    inside = [path for path in tree.images if path.is_relative_to(images)]
    if not inside:
        raise DataError(
            f"{tree.folder / masks} has masks, but there are no images in {tree.folder / images}: "
            "export with images, or put them there."
        )
    image_of = {path.relative_to(images).with_suffix(""): path for path in inside}
    found = [
        LabelledImage(
            image_of.get(path.relative_to(masks).with_suffix(""), path), tree.folder / path
        )
        for path in tree.files
        if path.is_relative_to(masks) and has_suffix(path, MASKS)
    ]
    options, notes = _mask_options(tree, found, progress)
    options |= {"images": str(images), "masks": str(masks)}
    lists = tree.folders.get(masks.parent / VOC_LISTS, [])
    splits = {split_called(path.stem): str(path) for path in lists if path.suffix == ".txt"}
    if {"train", "val"} <= splits.keys():
        options["splits"] = {split: path for split, path in splits.items() if split}
    return OwnData(folder=tree.folder, options=options, notes=notes)


def _mask_options(
    tree: Tree, images: Sequence[LabelledImage], progress: Progress
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return how masks are read: what their values mean, and whether photographs are turned."""
    _, upright, turned = stand_upright(tree.folder, images)
    options, notes = _meaning(tree, images, progress)
    return options | upright, (*notes, *turned)


def _meaning(tree: Tree, images: Sequence[LabelledImage], progress: Progress) -> Read:
    """Return what the values in masks mean, from a file that tells it or from themselves."""
    listed = _find_named(tree, LABEL_MAP, CLASS_DICT)
    if listed is not None:
        return _of_label_map(tree.folder / listed, _sample(tree))
    values = collect(images, progress)
    if not values.pixels:
        raise DataError(values.error)
    if values.colours:
        return _of_colours(values.pixels, tree.folder)
    two = black_and_white(values.pixels)
    names = _find_named(tree, *NAME_FILES)
    if two is not None and names is None:
        return {"classes": [BACKGROUND, "foreground"], "label_map": two}, [UNNAMED]
    if two is not None and names is not None:
        given = _read_names(tree.folder / names)
        if len(given) != 2:
            raise DataError(
                f"{tree.folder / names} names {counted(len(given), 'class', 'classes')}, and masks "
                "are black and white: name what is black, then what is white."
            )
        means = {BACKGROUND: given[0], "foreground": given[1]}
        return {"classes": given, "label_map": {n: means.get(to, to) for n, to in two.items()}}, []
    known = _of_public(tree, images, values) if names is None else None
    return known or _of_numbers(sorted(values.pixels), tree, names)


def _of_public(tree: Tree, images: Sequence[LabelledImage], values: Values) -> Read | None:
    """Return what numbers mean in trees like those of Oxford-IIIT Pet, Cityscapes and ADE20K."""
    path, numbers = images[0].labels, values.pixels.keys()
    if not isinstance(path, Path):
        return None
    if "trimaps" in path.parts and numbers <= {1, 2, 3}:
        classes, label_map = [BACKGROUND, "foreground"], {"1": 1, "2": 0, "3": "ignore"}
        note = "trimaps: 1 is foreground, 2 is background, and the border, 3, is void"
        return {"classes": classes, "label_map": label_map}, [note]
    if path.stem.endswith("_labelTrainIds") and numbers <= {*range(19), IGNORE}:
        return {"classes": list(CITYSCAPES.info.classes)}, [PUBLIC.format(CITYSCAPES.info.title)]
    if path.stem.endswith("_labelIds") and numbers <= {*range(34), IGNORE}:
        label_map = {str(n): "ignore" for n in (*range(34), IGNORE)}
        label_map |= {str(n): label for label, n in enumerate(LABEL_IDS)}
        classes = list(CITYSCAPES.info.classes)
        note = PUBLIC.format(CITYSCAPES.info.title)
        return {"classes": classes, "label_map": label_map}, [note]
    if _find_named(tree, ADE_NAMES) and numbers <= {*range(151)}:
        classes = list(ADE20K.info.classes)
        label_map = {"0": "ignore"} | {str(n): n - 1 for n in range(1, 151)}
        return {"classes": classes, "label_map": label_map}, [PUBLIC.format(ADE20K.info.title)]
    return None


def _read_names(path: Path) -> list[str]:
    """Read the names of classes, one on each line. A first one that means void is no class."""
    with Place(path):
        names = [check_name(line) for line in read_lines(path)]
    if names[0].lower() in VOIDS:  # labelme writes the label -1 first, which is 255 in a mask
        names = names[1:]
    return [BACKGROUND if name.lower() in BACKGROUND_NAMES else name for name in names]


def collect(images: Sequence[LabelledImage], progress: Progress = SILENT) -> Values:
    """Count the values of many masks, in several processes."""
    masks = [one.labels for one in images if isinstance(one.labels, Path)]
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


def _read_values(path: Path) -> Values:
    """Count the values of one mask."""
    try:
        return Values(Counter(count_values(read_mask(path))))
    except ColourMaskError:
        return Values(Counter(count_values(read_colours(path), 4 * MOST_COLOURS)), colours=True)
    except DataError as error:
        return Values(Counter(), error=str(error))


def _find_named(tree: Tree, *names: str) -> Path | None:
    """Find a file of one of these names, the one least deep in the folder."""
    found = [path for path in tree.files if path.name in names]
    return min(found, key=lambda path: (len(path.parts), names.index(path.name)), default=None)


def _of_label_map(path: Path, sampled: Values) -> Read:
    """Return classes and colours of a labelmap.txt. Masks of numbers follow its order."""
    colours = read_label_map(path)
    names = [name for name in colours if name != "ignore"]
    greys = {n * 0x010101 for n in sampled.pixels}
    numbers = not sampled.colours and not greys <= {*map(code_of, colours.values())}
    if numbers and max(sampled.pixels, default=0) < len(colours):
        label_map = {str(i): name for i, name in enumerate(colours)} | {"255": "ignore"}
        return {"classes": names, "label_map": label_map}, []
    return {"classes": names, "colours": {name: list(rgb) for name, rgb in colours.items()}}, []


def _of_numbers(values: Sequence[int], tree: Tree, path: Path | None) -> Read:
    """Name the numbers in masks, by a list such as classes.txt if there is one. 255 is void."""
    numbers = [number for number in values if number != IGNORE]
    if path is not None:
        names = _read_names(tree.folder / path)
        if max(numbers, default=0) >= len(names):
            raise DataError(
                f"{tree.folder / path} names {len(names)} classes, and masks hold the number "
                f"{max(numbers)}."
            )
        return {"classes": names}, []
    if len(numbers) > MOST_NUMBERS:
        raise DataError(
            f"the masks of {tree.folder} hold {len(numbers)} different numbers: are they "
            f"photographs? If they are labels, name them in {CLASSES}, one on each line."
        )
    names = [BACKGROUND, "foreground"] if numbers == [0, 1] else [f"class {n}" for n in numbers]
    label_map = {str(n): name for n, name in zip(numbers, names, strict=True)}
    label_map |= {str(IGNORE): "ignore"} if IGNORE in values else {}
    gaps = {} if numbers == list(range(len(numbers))) else {"label_map": label_map}
    return {"classes": names, **gaps}, [UNNAMED]


def _of_colours(pixels: Counter[int], folder: Path) -> Read:
    """Name colours by their hexadecimal digits, and black background."""
    if len(pixels) > MOST_COLOURS:
        most = such_as([str(colour_of(code)) for code, _ in pixels.most_common(4)])
        raise DataError(
            f"the masks of {folder} hold more than {MOST_COLOURS} colours ({most}): smooth edges "
            f"or compression. If you know the colours, name them in {LABEL_MAP}: name:128,64,128::"
        )
    codes = sorted(pixels, key=lambda code: (code != 0, -pixels[code], code))
    colours = {(f"#{code:06x}" if code else BACKGROUND): list(colour_of(code)) for code in codes}
    return {"classes": list(colours), "colours": colours}, [UNNAMED_COLOURS]


def _format(title: str, kind: str) -> Format:
    return Format(title, partial(recognise, kind=kind), read)


COLOUR_MASKS = _format("masks of colours", "colour")
BLACK_WHITE_MASKS = _format("black and white masks", "two")
INDEX_MASKS = _format("masks of class numbers", "index")
VOC = Format("VOC tree, or CVAT Segmentation mask 1.1", recognise_voc, read_voc)
