"""Folders, right and wrong, with what a check must find in each and propose."""

from reconet.data.classes import colour_map
from reconet.types import IGNORE
from tests.data.check import cases as c
from tests.data.check import drawings as d
from tests.data.check.cases import ABC, FOUR, SEVEN, TWO, Case, coloured, masks, meaning

OUTSIDE = ("label-outside",)
UNREAD = ("colours-unread",)
THREE = ("classes", "ignore", "label_map")
NUMBERS_7 = tuple(range(8))

RIGHT = {
    "numbers": Case(masks(0, 1, 2)),
    "numbers and void": Case(masks(0, 1, 2, 255)),
    "folders without test": Case(c.in_folders),
    "lists without test": Case(c.with_lists),
    "a file of pairs": Case(c.with_pairs, options={"pairs": "{split}.tsv"}),
    "a test split without masks": Case(c.with_test),
    "longer names of masks": Case(c.with_suffix, options={"mask_suffix": "_mask"}),
    "palettes": Case(c.with_palette),
    "one bit": Case(c.one_bit, TWO),
    "a label map": Case(masks(0, 7, 9), options={"label_map": {"0": 0, "7": 1, "9": 2}}),
    "a label map with ranges": Case(
        masks(3, 99), TWO, options={"label_map": {"0-9": 0, "90-99": 1}}
    ),
    "colours": Case(coloured(c.RGB), options={"colours": c.RGB_OPTION}),
    "labelmap.txt alone": Case(c.with_label_map_file, ()),
    "folders of splits first": Case(
        c.split_first, options={"images": "{split}/images", "masks": "{split}/masks"}
    ),
    "masks beside images": Case(
        c.beside, options={"images": ".", "masks": ".", "mask_suffix": "_mask"}
    ),
    "two colours of one name": Case(
        coloured(c.RGB, (0, 1, 2, IGNORE)),
        options={"colours": c.RGB_OPTION | {"wall": [list(c.RGB[0]), list(c.RGB[IGNORE])]}},
    ),
    "objects on a background": Case(d.islands),
    "other names of splits": Case(
        c.renamed(train="a", val="b"), options={"splits": {"train": "a", "val": "b"}}
    ),
    "a thin class 0": Case(d.thin_first_class(1, 2)),
    "turned images, masks not": Case(c.turned(6, 8, upright=False)),
    "turned images and masks": Case(c.turned(6, 8), options={"upright": True}),
}
NUMBERS = {
    "a name is missing": Case(
        masks(*NUMBERS_7),
        SEVEN,
        OUTSIDE,
        THREE,
        0,
        says="that no class has: 7 (",
    ),
    "two names are missing": Case(masks(0, 1, 2, 3, 4), ABC, OUTSIDE, ("classes", "ignore"), 0),
    "a name is missing, class 0 is thin": Case(d.thin_first_class(1, 2, 3), ABC, OUTSIDE, THREE, 0),
    "one stray mask": Case(d.stray(3, 0, 1, 2), ABC, OUTSIDE, ("ignore",), 0, says="in 1 mask"),
    "one stray mask, class 0 is rare": Case(d.stray(3, 1, 2), ABC, OUTSIDE, ("ignore",), 0),
    "the next number is void": Case(
        meaning((0, 1, 2, 3), (0, 1, 2, IGNORE)),
        ABC,
        OUTSIDE,
        THREE,
        1,
    ),
    "another number is void": Case(
        meaning((0, 1, 2, 254), (0, 1, 2, IGNORE)), ABC, OUTSIDE, ("ignore",), 0
    ),
    "a number is not in the label map": Case(
        meaning((0, 7, 9), (0, 1, IGNORE)),
        TWO,
        OUTSIDE,
        ("label_map",),
        0,
        options={"label_map": {"0": 0, "7": 1}},
    ),
    "numbers start at 1": Case(meaning((1, 2, 3), (0, 1, 2)), ABC, OUTSIDE, ("label_map",), 0),
    "0 is void between classes": Case(d.void_borders, ABC, OUTSIDE, THREE, 2),
    "a name is missing, objects on a background": Case(d.islands, TWO, OUTSIDE, THREE, 0),
    "a trimap": Case(d.trimap(0, 1), ("pet", "rest"), OUTSIDE, ("label_map",), 0),
    "a trimap, background first": Case(
        d.trimap(1, 0), ("background", "pet"), OUTSIDE, ("label_map",), 0, says="if 2 means back"
    ),
    "one name, 0 and 255": Case(
        meaning((0, 255), (0, 1)), ("crack",), ("one-class",), ("classes",), 0
    ),
    "one name, 0 and 1": Case(masks(0, 1), ("crack",), OUTSIDE, ("classes",), 0),
    "one name, smooth edges": Case(d.smooth, ("crack",), OUTSIDE, ("classes",), 0),
    "one name, only 0": Case(masks(0), ("crack",), ("one-class",), says="such as background"),
    "0, 1 and void borders": Case(d.empty_class_and_borders, ABC, ("class-empty",)),
    "0 and 255, which is void": Case(masks(0, 255), TWO, ("class-empty",), options={"ignore": 255}),
    "0, 85, 170 and 255, which is void": Case(
        meaning((0, 85, 170, 255), (0, 1, 2, IGNORE)),
        ABC,
        OUTSIDE,
        ("label_map",),
        0,
        options={"ignore": 255},
    ),
    "0 and 255": Case(meaning((0, 255), (0, 1)), TWO, ("label-void",), ("label_map",), 0),
    "0 and 128": Case(meaning((0, 128), (0, 1)), TWO, OUTSIDE, ("label_map",), 0),
    "0, 50, 100, 150": Case(
        meaning((0, 50, 100, 150), (0, 1, 2, 3)), FOUR, OUTSIDE, ("label_map",), 0
    ),
    "0, 50, 100, 150 and void": Case(
        meaning((0, 50, 100, 150, 255), (0, 1, 2, 3, IGNORE)), FOUR, OUTSIDE, ("label_map",), 0
    ),
    "0, 85, 170, 255": Case(
        meaning((0, 85, 170, 255), (0, 1, 2, 3)), FOUR, OUTSIDE, ("label_map",), 0
    ),
    "0, 128, 255": Case(meaning((0, 128, 255), (0, 1, 2)), ABC, OUTSIDE, ("label_map",), 0),
    "50, 100, 150": Case(meaning((50, 100, 150), (0, 1, 2)), ABC, OUTSIDE, ("label_map",), 0),
    "smooth edges": Case(d.smooth, TWO, OUTSIDE, ("label_map",), 0, says="grey edges are void"),
    "void, a rare class and mistakes": Case(d.rare_class_and_strays, TWO, OUTSIDE, ("ignore",), 0),
    "even numbers of a longer list": Case(
        meaning((0, 2, 6), (0, 2, IGNORE)), FOUR, OUTSIDE, ("ignore",), 0
    ),
    "many numbers": Case(masks(0, 1, 2, 30, 41, 77, 130, 201), ABC, OUTSIDE),
}
COLOURS = {
    "grey numbers": Case(
        coloured({0: (0, 0, 0), 1: (1, 1, 1), 2: (2, 2, 2)}), ABC, UNREAD, ("colours",), 0
    ),
    "black and white": Case(
        coloured({0: (0, 0, 0), 1: (255, 255, 255)}, (0, 1)), TWO, UNREAD, ("colours",), 0
    ),
    "grey numbers with alpha": Case(
        d.grey((0, 1, 2), (0, 1, 2), mode="RGBA"), ABC, UNREAD, ("colours",), 0
    ),
    "grey numbers, where 255 may be the last": Case(
        d.grey((0, 1, 255), (0, 1, 2)), ABC, UNREAD, ("colours",)
    ),
    "grey numbers, 255 for void": Case(
        d.grey((0, 1, 2, 255), (0, 1, 2, IGNORE)), ABC, UNREAD, ("colours",), 0
    ),
    "grey numbers and two voids": Case(
        d.grey((0, 1, 2, 254, 255), (0, 1, 2, IGNORE, IGNORE)),
        ABC,
        UNREAD,
        ("colours",),
        0,
        options={"ignore": [254, 255]},
    ),
    "grey numbers of a label map": Case(
        d.grey((0, 7), (0, 1)),
        TWO,
        UNREAD,
        ("colours",),
        0,
        options={"label_map": {"0": 0, "7": 1}},
    ),
    "one name, black and white": Case(
        d.grey((0, 255), (0, 1)), ("crack",), UNREAD, ("classes",), 0
    ),
    "grey steps": Case(
        coloured({0: (0, 0, 0), 1: (90, 90, 90), 2: (180, 180, 180)}), ABC, UNREAD, ("colours",), 0
    ),
    "colours of VOC": Case(
        coloured(dict(enumerate(colour_map(3)))), ABC, UNREAD, ("colours",), 0, says="PASCAL VOC"
    ),
    "colours of VOC after black": Case(
        coloured({IGNORE: (0, 0, 0)} | dict(enumerate(colour_map(3, 1))), (0, 1, 2, IGNORE)),
        ABC,
        UNREAD,
        ("colours",),
        0,
    ),
    "colours of Cityscapes": Case(
        coloured(dict(enumerate(c.STREET.values()))),
        tuple(c.STREET),
        UNREAD,
        ("colours",),
        0,
        says="Cityscapes",
    ),
    "colours of labelmap.txt": Case(
        c.with_label_map_file, ABC, UNREAD, ("colours",), 0, says="as labelmap.txt says"
    ),
    "colours of nobody": Case(
        coloured(c.RGB), ABC, UNREAD, ("colours",), says='"NAME": [200, 0, 0]'
    ),
    "too many colours": Case(c.photographs_as_masks, ABC, UNREAD, says="smooth edges"),
    "one more colour": Case(
        coloured(c.RGB, (0, 1, 2, IGNORE)),
        ABC,
        ("colours-unknown",),
        options={"colours": c.RGB_OPTION},
        says="(1, 1, 1)",
    ),
}
FILES = {
    "JPEG masks": Case(c.jpeg_masks, ABC, ("unreadable-mask",), says="6 masks: it is a JPEG"),
    "wide masks": Case(c.wide_masks, ABC, ("unreadable-mask",) * 6, says="16-bit"),
    "damaged images": Case(c.damaged, ABC, ("unreadable-image",) * 2, says="is empty"),
    "a damaged mask": Case(c.damaged_mask, ABC, ("unreadable-mask",)),
    "masks of turned images": Case(
        c.turned(6, 8), ABC, ("exif",), ("upright",), 0, says="6 images have an EXIF orientation"
    ),
    "masks of some turned images": Case(c.turned(1, 6), ABC, ("exif",), ("upright",)),
    "masks of half of the turned images": Case(c.half_turned, ABC, ("exif",)),
    "turned squares": Case(c.turned(6, square=True), ABC, ("exif-unclear",), notes_only=True),
    "images upside down": Case(c.turned(3), ABC, ("exif-unclear",), notes_only=True),
    "a smaller mask": Case(c.other_sizes, ABC, ("size",), says="32 x 22 for 32 x 24"),
    "height and width swapped": Case(c.swapped_sizes, ABC, ("size",), says="are swapped"),
    "images without masks": Case(
        c.without("masks/a.png", "masks/d.png"), ABC, ("missing-mask",), says="2 images"
    ),
    "masks without images": Case(
        c.without("images/a.png"), ABC, ("missing-partner",), says="1 mask without an image (a)"
    ),
    "files of pairs that are gone": Case(
        c.missing_in_pairs,
        ABC,
        ("missing-image", "missing-mask"),
        options={"pairs": "{split}.tsv"},
    ),
    "a list with an unknown name": Case(c.unknown_in_list, ABC, ("split",), says="nobody"),
    "no masks of val": Case(c.no_masks_of_val, ABC, ("split",), says="there is no folder"),
    "no val": Case(c.only_train, ABC, ("split-absent",), ("images",), says="no val, which a train"),
    "a misspelt folder": Case(
        c.renamed(train="trian"), ABC, ("split-absent",), ("splits",), says="There are: trian, val"
    ),
    "two misspelt folders": Case(
        c.renamed(train="trian", val="valid"), ABC, ("split-unused",), ("splits",)
    ),
    "a test split for val": Case(
        c.renamed(val="test"), ABC, ("split-absent",), ("splits",), says="test is val"
    ),
    "splits that are not there": Case(
        c.in_folders,
        ABC,
        ("split-absent",),
        ("splits",),
        options={"splits": {"train": "train", "val": "vall"}},
    ),
    "splits without val": Case(
        c.in_folders, ABC, ("split-absent",), ("splits",), options={"splits": {"train": "train"}}
    ),
    "a leak": Case(c.copied("train/1", "val/4"), ABC, ("leak",), says="1 of train = 4 of val"),
    "a copy": Case(c.copied("train/0", "train/3"), ABC, ("duplicate",), notes_only=True),
    "a copy with another mask": Case(
        c.copied("train/0", "train/2", with_mask=False), ABC, ("duplicate-mask",)
    ),
    "an empty mask": Case(c.some_void, ABC, ("all-void",), notes_only=True),
    "only empty masks": Case(masks(255), ABC, ("all-void",)),
    "a class without pixels": Case(masks(0, 2), ABC, ("class-empty",), says="(door)"),
    "a class without pixels in val": Case(
        c.none_in_val, ABC, ("class-absent",), notes_only=True, says="in val (floor)"
    ),
}
CASES = RIGHT | NUMBERS | COLOURS | FILES
# Masks of which no pixel is read rightly before a proposal is followed.
NOTHING_RIGHT = (
    "numbers start at 1",
    "50, 100, 150",
    "a trimap",
    "0 is void between classes",
)
