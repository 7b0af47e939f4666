"""Options of the dataset `folder`, and what they say about the numbers or colours in masks.

Where the options name no classes, a text file in the root does, as other programs write it.

class_dict.csv  a line "name,red,green,blue" for each class, below a line of titles
labelmap.txt    of CVAT: a line "name:red,green,blue::" for each class; masks are read as colours
classes.txt     a name on each line; number i in the masks is the i-th
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from reconet.data.classes import default_palette
from reconet.data.images.read import read_image
from reconet.data.labels import LabelReader, count_values, in_order, label_table
from reconet.data.layout import read_lines
from reconet.errors import DataError
from reconet.recipes.schema import Settings
from reconet.system.readable import counted
from reconet.types import IGNORE, MAX_CLASSES, Colour, Label

Byte = Annotated[int, Field(ge=0, le=255)]
Rgb = tuple[Byte, Byte, Byte]
ALIKE = 12  # sum of the differences in red, green and blue below which colours look alike
JPEG = (".jpg", ".jpeg")
LABEL_MAP, CLASS_DICT, CLASSES = "labelmap.txt", "class_dict.csv", "classes.txt"
LINE = re.compile(r"([^:]+):\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*:.*")
CSV_LINE = re.compile(r'"?([^",]+)"?\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*')
VOID_NAMES = ("ignore", "ignored", "void", "unlabelled", "unlabeled")


def _expand_ranges(label_map: Any) -> Any:
    """Replace a key such as "0-127" by all of its numbers."""
    if not isinstance(label_map, dict):
        return label_map
    expanded: dict[Any, Any] = {}
    for key, meaning in label_map.items():
        first, _, last = str(key).partition("-")
        keys: list[Any] = [key]
        if first.strip().isdecimal() and (last or first).strip().isdecimal():
            low, high = int(first), int(last or first)
            if not 0 <= low <= high <= 255:
                raise ValueError(f"{key!r} is not a number or a range within 0-255")
            keys = list(range(low, high + 1))
        for number in keys:
            if number in expanded:
                raise ValueError(f"the number {number} has two meanings")
            expanded[number] = meaning
    return expanded


def _as_lists(colours: Any) -> Any:
    """Replace one colour of a name by a list of it."""
    if not isinstance(colours, dict):
        return colours
    plain = {
        name: [one]
        for name, one in colours.items()
        if isinstance(one, list | tuple) and not (one and isinstance(one[0], list | tuple))
    }
    return colours | plain


class FolderOptions(Settings):
    """Settings of the dataset `folder`, in data.options."""

    classes: Annotated[
        tuple[str, ...],
        Field(min_length=1, max_length=MAX_CLASSES, examples=['["road", "grass"]']),
    ]
    """names of the classes: the first is label 0, and so on"""
    images: str = "images"
    """folder of the images, relative to the root; such as {split}/images if splits come first"""
    masks: str = "masks"
    """folder of the masks, relative to the root, as for images"""
    mask_suffix: str = ""
    """what the name of a mask adds to that of its image, such as _mask"""
    pairs: str | None = None
    """text file of pairs, instead of the two folders"""
    ignore: Byte | Annotated[tuple[Byte, ...], Field(max_length=256)] = IGNORE
    """number, or numbers, in the masks that mean "not labelled" """
    label_map: Annotated[dict[Byte, Byte | str], BeforeValidator(_expand_ranges)] | None = None
    """what each number in the masks, or a range such as 0-127, means: a class, 255 or "ignore" """
    colours: Annotated[dict[str, tuple[Rgb, ...]], BeforeValidator(_as_lists)] | None = None
    """for RGB masks: the colour, or a list of colours, of each class by name, and of "ignore" """
    palette: dict[str, Rgb] | None = None
    """colours to draw classes in, by name; they say nothing about the masks"""
    splits: Annotated[dict[str, str], Field(max_length=100)] | None = None
    """for each split, a list of names (a .txt file in the root) or a folder in both folders"""
    upright: bool = False
    """turn images as their EXIF orientation says; for masks that were drawn on turned images"""
    title: str = ""
    """what to call the dataset"""
    val_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """fraction of the images that is val, where no folders or lists decide"""
    val_choice: Literal["hash", "images", "classes"] = "hash"
    """choose val by a hash of names, or keep equal images together, or also each class in both"""
    exclude: Annotated[tuple[str, ...], Field(examples=['["a", "train/b"]'])] = ()
    """names of images to leave out, such as a, or train/a for that of one split"""

    @property
    def ignored(self) -> tuple[int, ...]:
        return (self.ignore,) if isinstance(self.ignore, int) else self.ignore

    @property
    def ignore_is_given(self) -> bool:
        """Return whether a person has said which numbers are void."""
        return "ignore" in self.model_fields_set

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        if len(set(self.classes)) < len(self.classes) or "ignore" in self.classes:
            raise ValueError('classes must be different names, and none of them "ignore"')
        for meaning in [*(self.colours or ()), *(self.label_map or {}).values()]:
            self.label_of(meaning)
        for name in self.palette or ():
            if name not in self.classes:
                raise ValueError(f"palette has {name!r}, which is no class")
        return self

    @model_validator(mode="after")
    def _masks_are_read_in_one_way(self) -> Self:
        if self.colours is not None:
            absent = [name for name in self.classes if not self.colours.get(name)]
            if self.label_map is not None:
                raise ValueError("give colours or label_map, not both")
            if absent:
                raise ValueError(f"colours lacks {', '.join(absent)}")
            every = [colour for some in self.colours.values() for colour in some]
            twice = [colour for colour in every if every.count(colour) > 1]
            if twice:
                raise ValueError(f"colours has {list(twice[0])} twice")
        elif self.label_map is not None and self.ignore_is_given:
            for number in self.ignored:
                meaning = self.label_map.get(number, IGNORE)
                if self.label_of(meaning) != IGNORE:
                    raise ValueError(
                        f"ignore says that {number} is void, and label_map that it is {meaning!r}; "
                        "remove one of them"
                    )
        elif self.label_map is None and any(n < len(self.classes) for n in self.ignored):
            name = self.classes[min(self.ignored)]
            raise ValueError(
                f"ignore has {min(self.ignored)}, which is also the number of {name!r}; "
                "use label_map to define what each number in the masks means"
            )
        return self

    @model_validator(mode="after")
    def _folders_fit(self) -> Self:
        by_split = ["{split}" in folder for folder in (self.images, self.masks)]
        if any(by_split) and not all("{split}" in f.split("/") for f in (self.images, self.masks)):
            raise ValueError("if images or masks has {split}, both do, as in {split}/images")
        if any(by_split) and any(one.endswith(".txt") for one in (self.splits or {}).values()):
            raise ValueError("if images has {split}, splits names folders, not lists")
        return self

    def keeps(self, split: str, name: str) -> bool:
        """Return whether an image is not left out."""
        return name not in self.exclude and f"{split}/{name}" not in self.exclude

    def label_of(self, meaning: int | str) -> int:
        """Return the label of a class, given by number or name, or IGNORE."""
        if meaning in ("ignore", IGNORE):
            return IGNORE
        if isinstance(meaning, str) and meaning in self.classes:
            return self.classes.index(meaning)
        if isinstance(meaning, int) and meaning < len(self.classes):
            return meaning
        raise ValueError(f"{meaning!r} is neither a class nor 'ignore'")


def read_colours(path: Path) -> NDArray[np.int32]:
    """Read a mask as colours, 0xRRGGBB."""
    if path.suffix.lower() in JPEG:
        raise DataError(f"{path} is a JPEG, which blurs labels; save masks as PNG.")
    red_hw, green_hw, blue_hw = np.moveaxis(read_image(path).astype(np.int32), 2, 0)
    code_hw: NDArray[np.int32] = red_hw << 16 | green_hw << 8 | blue_hw
    return code_hw


def colour_of(code: int) -> Colour:
    """Return red, green and blue of 0xRRGGBB."""
    return code >> 16, code >> 8 & 255, code & 255


def code_of(colour: Colour) -> int:
    """Return a colour as 0xRRGGBB."""
    return colour[0] << 16 | colour[1] << 8 | colour[2]


@dataclass(frozen=True, eq=False)
class ColourReader:
    """Reads RGB masks by the colours of their classes."""

    code_n: NDArray[np.int32]  # colours as 0xRRGGBB, sorted
    label_n: NDArray[np.uint8]

    def __call__(self, path: Path) -> Label:
        code_hw = read_colours(path)
        place_hw = np.searchsorted(self.code_n, code_hw).clip(max=len(self.code_n) - 1)
        strange_hw = self.code_n[place_hw] != code_hw
        if strange_hw.any():
            (code, pixels), *others = count_values(code_hw[strange_hw]).items()
            more = f" and {counted(len(others), 'other colour')}" if others else ""
            raise DataError(
                f"{path} holds the colour {colour_of(code)} in {counted(pixels, 'pixel')}{more}; "
                "data.options.colours has no such colour."
            )
        return np.asarray(self.label_n.take(place_hw), np.uint8)


def mask_reader(options: FolderOptions) -> LabelReader | ColourReader:
    """Return the function that reads masks with these options."""
    if options.colours is not None:
        labels = {
            code_of(colour): options.label_of(name)
            for name, some in options.colours.items()
            for colour in some
        }
        codes = sorted(labels)
        label_n = np.array([labels[code] for code in codes], np.uint8)
        return ColourReader(np.array(codes, np.int32), label_n)
    if options.label_map is not None:
        named = {number: options.label_of(to) for number, to in options.label_map.items()}
        return LabelReader(label_table(dict.fromkeys(options.ignored, IGNORE) | named))
    return LabelReader(in_order(len(options.classes), void=options.ignored))


def palette_of(options: FolderOptions) -> tuple[Colour, ...]:
    """Return the colours to draw in: own ones, those of the masks, or ones that look different.

    Colours of masks that look alike, such as (0, 0, 0) and (1, 1, 1), are not used.
    """
    chosen = default_palette(options.classes)
    if options.colours is not None:
        in_masks = tuple(options.colours[name][0] for name in options.classes)
        alike = (
            sum(abs(a - b) for a, b in zip(one, other, strict=True)) < ALIKE
            for one, other in combinations(in_masks, 2)
        )
        chosen = chosen if any(alike) else in_masks
    own = options.palette or {}
    return tuple(own.get(name, chosen[i]) for i, name in enumerate(options.classes))


def with_classes_of_root(root: Path, options: Mapping[str, object]) -> Mapping[str, object]:
    """Add class names, and colours, from the root's own files, where the options name none."""
    if "classes" in options:
        return options
    listed = next(
        (root / name for name in (LABEL_MAP, CLASS_DICT) if (root / name).is_file()), None
    )
    if listed is not None:
        colours = read_label_map(listed)
        known = "label_map" in options or "colours" in options
        values = {} if known else {"colours": {name: list(rgb) for name, rgb in colours.items()}}
        return {**options, "classes": [name for name in colours if name != "ignore"], **values}
    if (root / CLASSES).is_file():
        return {**options, "classes": read_lines(root / CLASSES)}
    return options


def read_label_map(path: Path) -> dict[str, Colour]:
    """Read the colour of each class, in order. A name such as void becomes "ignore"."""
    colours: dict[str, Colour] = {}
    table = path.suffix.lower() == ".csv"
    for line in read_lines(path)[table:]:  # titles come first in a table
        if line.startswith("#"):
            continue
        match = (CSV_LINE if table else LINE).fullmatch(line)
        if match is None:
            wanted = "road,128,64,128" if table else "road:128,64,128:: as CVAT writes them"
            raise DataError(
                f"{path}: expected lines such as {wanted}, got {line!r}. For names alone, call the "
                f"file {CLASSES}."
            )
        name = match[1].strip()
        name = "ignore" if name.lower() in VOID_NAMES else name
        colour = int(match[2]), int(match[3]), int(match[4])
        if max(colour) > 255:
            raise DataError(f"{path}: red, green and blue are 0 to 255, got {line!r}.")
        if name in colours:
            raise DataError(f"{path} has {name!r} more than once (void names become 'ignore').")
        if colour in colours.values():
            raise DataError(f"{path} has the colour of {line!r} more than once.")
        colours[name] = colour
    if not colours.keys() - {"ignore"}:
        raise DataError(f"{path} names no class.")
    return colours
