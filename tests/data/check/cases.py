"""Ways in which a folder can be right or wrong, each with what a check must find and propose."""

from dataclasses import dataclass, field
from typing import Any

from reconet.types import IGNORE
from tests.data.check.folders import noise
from tests.data.check.makers import (
    ABC,
    RGB,
    Make,
    beside,
    coloured,
    copied,
    damaged,
    folders,
    jpeg_masks,
    masks,
    no_masks_of_val,
    none_in_val,
    only_train,
    other_sizes,
    smooth,
    some_void,
    split_first,
    stray,
    swapped_sizes,
    turned,
    void_between,
    wide_masks,
    with_label_map_file,
    with_lists,
    with_pairs,
    with_palette,
    with_suffix,
    with_test,
    without,
)

ONE, TWO, FOUR = ("crack",), ("no", "yes"), ("a", "b", "c", "d")
VOC = {0: (0, 0, 0), 1: (128, 0, 0), 2: (0, 128, 0)}
RGB_OPTION = {name: list(RGB[label]) for label, name in enumerate(ABC)}


@dataclass(frozen=True)
class Case:
    """How to make a folder, and what a check must say about it."""

    make: Make
    classes: tuple[str, ...] = ABC
    findings: tuple[str, ...] = ()  # kinds, in any order
    proposals: tuple[str, ...] = ()  # the first option that each proposes to set, in order
    mends: int | None = None  # the proposal that is the right one
    notes_only: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    says: str = ""  # a part of what a person reads


def case(kind: str, make: Make, classes: tuple[str, ...], *options: str, **more: Any) -> Case:
    """Return a case of one finding, which the first proposal mends."""
    return Case(make, classes, (kind,), options, **({"mends": 0 if options else None} | more))


RIGHT = {
    "numbers": Case(masks(0, 1, 2)),
    "numbers and void": Case(masks(0, 1, 2, 255)),
    "folders": Case(folders()),
    "lists": Case(with_lists()),
    "a file of pairs": Case(with_pairs(), options={"pairs": "{split}.tsv"}),
    "a test split without masks": Case(with_test),
    "longer names of masks": Case(with_suffix, options={"mask_suffix": "_mask"}),
    "palettes": Case(with_palette),
    "one bit": Case(masks(0, 255, mode="1", like=(0, 1)), TWO),
    "a label map": Case(masks(0, 7, 9), options={"label_map": {"0": 0, "7": 1, "9": 2}}),
    "colours": Case(coloured(RGB), options={"colours": RGB_OPTION}),
    "labelmap.txt alone": Case(with_label_map_file, ()),
    "folders of splits first": Case(
        split_first, options={"images": "{split}/images", "masks": "{split}/masks"}
    ),
    "masks beside images": Case(
        beside, options={"images": ".", "masks": ".", "mask_suffix": "_mask"}
    ),
    "other names of splits": Case(
        folders(train="a", val="b"), options={"splits": {"train": "a", "val": "b"}}
    ),
    "turned images, masks not": Case(turned(6, 8, upright=False)),
    "turned images and masks": Case(turned(6, 8), options={"upright": True}),
}
OUTSIDE, UNREAD, THREE = "label-outside", "colours-unread", ("classes", "ignore", "label_map")
NUMBERS = {
    "a name is missing": case(OUTSIDE, masks(0, 1, 2), TWO, *THREE, says="has: 2 ("),
    "two names are missing": case(OUTSIDE, masks(0, 1, 2, 3, 4), ABC, "classes", "ignore"),
    "one stray mask": case(OUTSIDE, stray(3, 0, 1, 2), ABC, "ignore", says="in 1 mask"),
    "one stray mask, class 0 is rare": case(OUTSIDE, stray(3, 1, 2), ABC, "ignore"),
    "the next number is void": case(
        OUTSIDE, masks(0, 1, 2, 3, like=(0, 1, 2, IGNORE)), ABC, *THREE, mends=1
    ),
    "another number is void": case(
        OUTSIDE, masks(0, 1, 2, 254, like=(0, 1, 2, 255)), ABC, "ignore"
    ),
    "a number is not in the label map": case(
        OUTSIDE,
        masks(0, 7, 9, like=(0, 1, IGNORE)),
        TWO,
        "label_map",
        options={"label_map": {"0": 0, "7": 1}},
    ),
    "numbers start at 1": case(OUTSIDE, masks(1, 2, 3, like=(0, 1, 2)), ABC, "label_map"),
    "0 is void between classes": case(OUTSIDE, void_between(1, 2, 3, void=0), ABC, *THREE, mends=2),
    "a trimap": case(
        OUTSIDE,
        masks(1, 2, 3, like=(1, 0, IGNORE)),
        ("background", "pet"),
        "label_map",
        says="if 2 means background",
    ),
    "one name, 0 and 255": case("one-class", masks(0, 255, like=(0, 1)), ONE, "classes"),
    "one name, 0 and 1": case(OUTSIDE, masks(0, 1), ONE, "classes"),
    "one name, smooth edges": case(OUTSIDE, smooth, ONE, "classes"),
    "one name, only 0": case("one-class", masks(0), ONE, says="such as background"),
    "0, 1 and void borders": case("class-empty", void_between(0, 1, void=255), ABC),
    "0 and 255, which is void": case("class-empty", masks(0, 255), TWO, options={"ignore": 255}),
    "0 and 255": case("label-void", masks(0, 255, like=(0, 1)), TWO, "label_map"),
    "0 and 128": case(OUTSIDE, masks(0, 128, like=(0, 1)), TWO, "label_map"),
    "0, 50, 100, 150 and void": case(
        OUTSIDE, masks(0, 50, 100, 150, 255, like=(0, 1, 2, 3, 255)), FOUR, "label_map"
    ),
    "0, 85, 170, 255": case(OUTSIDE, masks(0, 85, 170, 255, like=(0, 1, 2, 3)), FOUR, "label_map"),
    "0, 85, 170 and 255, which is void": case(
        OUTSIDE,
        masks(0, 85, 170, 255, like=(0, 1, 2, IGNORE)),
        ABC,
        "label_map",
        options={"ignore": 255},
    ),
    "0, 128, 255": case(OUTSIDE, masks(0, 128, 255, like=(0, 1, 2)), ABC, "label_map"),
    "50, 100, 150": case(OUTSIDE, masks(50, 100, 150, like=(0, 1, 2)), ABC, "label_map"),
    "smooth edges": case(OUTSIDE, smooth, TWO, "label_map", says="grey edges are void"),
    "many numbers": case(OUTSIDE, masks(0, 1, 2, 30, 41, 77, 130, 201), ABC),
}
COLOURS = {
    "grey numbers": case(UNREAD, masks(0, 1, 2, mode="RGB"), ABC, "colours"),
    "grey numbers with alpha": case(UNREAD, masks(0, 1, 2, mode="RGBA"), ABC, "colours"),
    "grey numbers, 255 for void": case(UNREAD, masks(0, 1, 2, 255, mode="RGB"), ABC, "colours"),
    "grey numbers of a label map": case(
        UNREAD,
        masks(0, 7, mode="RGB", like=(0, 1)),
        TWO,
        "colours",
        options={"label_map": {"0": 0, "7": 1}},
    ),
    "grey steps": case(UNREAD, masks(0, 90, 180, mode="RGB", like=(0, 1, 2)), ABC, "colours"),
    "one name, black and white": case(
        UNREAD, masks(0, 255, mode="RGB", like=(0, 1)), ONE, "classes"
    ),
    "colours of VOC": case(UNREAD, coloured(VOC), ABC, "colours", says="PASCAL VOC"),
    "colours of labelmap.txt": case(
        UNREAD, with_label_map_file, ABC, "colours", says="as labelmap.txt says"
    ),
    "colours of nobody": case(
        UNREAD, coloured(RGB), ABC, "colours", mends=None, says='"NAME 1": ['
    ),
    "too many colours": case(
        UNREAD, lambda folder: folder.add_all([noise(n) for n in "abcdef"]), ABC, says="smooth"
    ),
    "one more colour": case(
        "colours-unknown",
        coloured(RGB, 0, 1, 2, IGNORE),
        ABC,
        options={"colours": RGB_OPTION},
        says="(1, 1, 1)",
    ),
}
SPLITS = {
    "a list with an unknown name": case("split", with_lists("e\nnobody\n"), ABC, says="nobody"),
    "no masks of val": case("split", no_masks_of_val, ABC, says="there is no folder"),
    "no val": case(
        "split-absent", only_train, ABC, "images", says="no val, which a training needs"
    ),
    "a misspelt folder": case(
        "split-absent", folders(train="trian"), ABC, says="There are: trian, val"
    ),
    "other usual names": case(
        "split-unused", folders(train="Training", val="valid"), ABC, "splits", says="are not used"
    ),
    "a test split for val": case(
        "split-absent", folders(val="test"), ABC, "splits", says="test is val"
    ),
    "splits that are not there": case(
        "split-absent",
        folders(),
        ABC,
        "splits",
        options={"splits": {"train": "train", "val": "vall"}},
    ),
}
FILES = {
    "JPEG masks": case("unreadable-mask", jpeg_masks, ABC, says="6 masks: it is a JPEG"),
    "wide masks": Case(wide_masks, ABC, ("unreadable-mask",) * 6, ("exclude",) * 6, says="16-bit"),
    "damaged images": Case(
        damaged(images_a=b"", images_c=b"?"),
        ABC,
        ("unreadable-image",) * 2,
        ("exclude",) * 2,
        says="is empty",
    ),
    "a damaged mask": case(
        "unreadable-mask", damaged(masks_c=b"\x89PNG\r\n\x1a\n"), ABC, "exclude"
    ),
    "masks of turned images": case(
        "exif", turned(6, 8), ABC, "upright", says="6 images have an EXIF orientation"
    ),
    "masks of some turned images": case("exif", turned(1, 6), ABC, "upright", "exclude"),
    "masks of half of the turned images": case("exif", turned(6, every=2), ABC, "exclude"),
    "turned squares": case("exif-unclear", turned(6, square=True), ABC, notes_only=True),
    "images upside down": case("exif-unclear", turned(3), ABC, notes_only=True),
    "a smaller mask": case("size", other_sizes, ABC, "exclude", says="32 x 22 for 32 x 24"),
    "height and width swapped": case("size", swapped_sizes, ABC, says="are swapped"),
    "images without masks": case(
        "missing-mask", without("masks/a.png", "masks/d.png"), ABC, says="2 images"
    ),
    "masks without images": case(
        "missing-partner", without("images/a.png"), ABC, says="1 mask without an image (a)"
    ),
    "files of pairs that are gone": Case(
        with_pairs("masks/b.png", "images/c.png"),
        ABC,
        ("missing-image", "missing-mask"),
        ("exclude", "exclude"),
        options={"pairs": "{split}.tsv"},
    ),
    "a leak": case(
        "leak", copied("train/1", "val/4"), ABC, "exclude", says="1 of train = 4 of val"
    ),
    "a copy": case("duplicate", copied("train/0", "train/3"), ABC, notes_only=True),
    "a copy with another mask": case(
        "duplicate-mask", copied("train/0", "train/2", False), ABC, "exclude"
    ),
    "an empty mask": case("all-void", some_void, ABC, notes_only=True),
    "only empty masks": case("all-void", masks(255), ABC),
    "a class without pixels": case("class-empty", masks(0, 2), ABC, says="(door)"),
    "a class without pixels in val": case(
        "class-absent", none_in_val, ABC, notes_only=True, says="in val (floor)"
    ),
}
CASES = RIGHT | NUMBERS | COLOURS | SPLITS | FILES
