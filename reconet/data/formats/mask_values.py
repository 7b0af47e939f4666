"""Find out what the numbers or colours in masks are, and propose classes for them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from os import cpu_count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reconet.data.dataset import evenly_spaced
from reconet.data.formats.labelled import BACKGROUND, BACKGROUND_NAMES, VOIDS, check_name
from reconet.data.formats.tree import Tree, such_as
from reconet.data.images.read import ColourMaskError, read_mask
from reconet.data.layout import read_lines
from reconet.data.parallel import map_in_processes
from reconet.data.sets.folder_classes import CLASSES, LABEL_MAP, read_label_map
from reconet.data.sets.folder_masks import colour_of, read_colours
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress
from reconet.types import IGNORE

SAMPLED = 12  # masks that are read to recognise a format
MOST_COLOURS = 64
MOST_NUMBERS = 100
NAME_FILES = (CLASSES, "class_names.txt", "labels.txt")
DARK, BRIGHT = 64, 192  # below and from which black and white masks with smooth edges are clear
MOST_GREY = 0.15  # of their pixels


class MaskValues(NamedTuple):
    """The values of one mask, or why it cannot be read."""

    pixels: dict[int, int]  # a number, or a colour 0xRRGGBB
    colours: bool = False
    error: str = ""


class Values(NamedTuple):
    """The values of many masks."""

    pixels: Counter[int]
    colours: bool
    error: str  # of the first mask that cannot be read

    @property
    def kind(self) -> str:
        """Return colour, two (black and white) or index."""
        if self.colours:
            return "colour"
        return "two" if _is_black_and_white(self.pixels) else "index"


def read_values(path: Path) -> MaskValues:
    """Count the values of one mask."""
    try:
        value_hw = read_mask(path)
        pixels_n = np.bincount(value_hw.ravel(), minlength=256)
        return MaskValues({n: int(pixels_n[n]) for n in np.flatnonzero(pixels_n).tolist()})
    except ColourMaskError:
        values, pixels = np.unique(read_colours(path), return_counts=True)
        most = np.argsort(-pixels)[: 4 * MOST_COLOURS]
        counts = zip(values[most].tolist(), pixels[most].tolist(), strict=True)
        return MaskValues(dict(counts), colours=True)
    except DataError as error:
        return MaskValues({}, error=str(error))


def collect_values(masks: Sequence[Path], progress: Progress = SILENT) -> Values:
    """Count the values of many masks, in several processes."""
    pixels: Counter[int] = Counter()
    colours, error = False, ""
    workers = min(cpu_count() or 1, len(masks) // 64)
    progress.start(len(masks), "read masks")
    with closing(map_in_processes(read_values, masks, workers)) as results:
        for one in results:
            if one.colours and not colours:
                pixels, colours = Counter(), True  # numbers among colours are indices of palettes
            if one.colours == colours:
                pixels.update(one.pixels)
            error = error or one.error
            progress.advance()
    return Values(pixels, colours, error)


def sample_values(masks: Sequence[Path]) -> Values:
    """Look at a few masks."""
    return collect_values([masks[i] for i in evenly_spaced(len(masks), SAMPLED)])


def find_named(tree: Tree, *names: str) -> Path | None:
    """Find a file of one of these names, the one least deep in the folder."""
    found = [path for path in tree.files if path.name in names]
    return min(found, key=lambda path: (len(path.parts), names.index(path.name)), default=None)


def label_map_options(path: Path, sampled: Values) -> dict[str, Any]:
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


def names_options(tree: Tree, numbers: Mapping[int, int]) -> dict[str, Any] | None:
    """Return the classes that a list such as classes.txt names, if it has enough of them."""
    path = find_named(tree, *NAME_FILES)
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


def propose_numbers(pixels: Mapping[int, int], folder: Path) -> dict[str, Any]:
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


def propose_two(pixels: Mapping[int, int]) -> dict[str, Any]:
    """Name black and white. Greys half-way between them are void."""
    label_map: dict[str, str] = {"0": BACKGROUND, "255": "foreground"}
    if set(pixels) > {0, 255}:
        label_map = {
            f"0-{DARK - 1}": BACKGROUND,
            f"{DARK}-{BRIGHT - 1}": "ignore",
            f"{BRIGHT}-255": "foreground",
        }
    return {"classes": [BACKGROUND, "foreground"], "label_map": label_map}


def propose_colours(pixels: Counter[int], folder: Path) -> dict[str, Any]:
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


def _is_black_and_white(pixels: Counter[int]) -> bool:
    if {0, 255} == set(pixels):
        return True
    grey = sum(count for value, count in pixels.items() if DARK <= value < BRIGHT)
    many = len(pixels) > MOST_NUMBERS // 2 and {0, 255} <= set(pixels)
    ends = pixels[0] + pixels[255]
    return many and grey <= MOST_GREY * pixels.total() and 2 * ends > pixels.total()
