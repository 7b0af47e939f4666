"""Ways in which a folder can be right or wrong, each with what a check must find and propose."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

from reconet.types import IGNORE
from tests.data.check.folders import (
    HEIGHT,
    WIDTH,
    Folder,
    blocks,
    looked_up,
    noise,
    painted,
    several,
)

ABC, TWO, FOUR = ("wall", "door", "floor"), ("no", "yes"), ("a", "b", "c", "d")
SEVEN = tuple("abcdefg")
RGB = {0: (10, 20, 30), 1: (200, 0, 0), 2: (0, 180, 90), IGNORE: (1, 1, 1)}
STREET = {"road": (128, 64, 128), "car": (0, 0, 142), "sky": (70, 130, 180)}
RGB_OPTION = {name: list(RGB[label]) for label, name in enumerate(ABC)}


@dataclass(frozen=True)
class Case:
    """How to make a folder, and what a check must say about it."""

    make: Callable[[Folder], None]
    classes: tuple[str, ...] = ABC
    findings: tuple[str, ...] = ()  # kinds, in any order
    proposals: tuple[str, ...] = ()  # options that it proposes to set, in order
    mends: int | None = None  # the proposal that is the right one
    notes_only: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    says: str = ""  # a part of what a person reads


def masks(*values: int) -> Callable[[Folder], None]:
    """Return a maker of masks with these values, which are right as they are."""
    return lambda folder: folder.add_all(several(values))


def meaning(values: tuple[int, ...], labels: tuple[int, ...]) -> Callable[[Folder], None]:
    drawn = several(values)
    truth = looked_up(drawn, dict(zip(values, labels, strict=True)))
    return lambda folder: folder.add_all(drawn, truth)


def coloured(colours: dict[int, Any], labels: tuple[int, ...] = (0, 1, 2)) -> Any:
    drawn = several(labels)
    return lambda folder: folder.add_all(painted(drawn, colours), drawn)


def in_folders(folder: Folder) -> None:
    for number, mask_hw in enumerate(several((0, 1, 2))):
        folder.add(f"{'val' if number > 3 else 'train'}/{number}", mask_hw)


def renamed(**names: str) -> Callable[[Folder], None]:
    """Give the folders of splits other names."""

    def make(folder: Folder) -> None:
        in_folders(folder)
        for kind in ("images", "masks"):
            for old, new in names.items():
                (folder.root / kind / old).rename(folder.root / kind / new)

    return make


def only_train(folder: Folder) -> None:
    for number, mask_hw in enumerate(several((0, 1, 2))):
        folder.add(f"train/{number}", mask_hw)


def split_first(folder: Folder) -> None:
    in_folders(folder)
    for kind in ("images", "masks"):
        for split in ("train", "val"):
            (folder.root / split).mkdir(exist_ok=True)
            (folder.root / kind / split).rename(folder.root / split / kind)
        (folder.root / kind).rmdir()


def beside(folder: Folder) -> None:
    with_suffix(folder)
    for path in list(folder.root.glob("*/*.png")):
        path.rename(folder.root / path.name)


def with_lists(folder: Folder) -> None:
    masks(0, 1, 2)(folder)
    folder.write("train.txt", "a\nb\nc\nd\n")
    folder.write("val.txt", "e\nf\n")


def with_palette(folder: Folder) -> None:
    masks(0, 1, 2)(folder)
    for path in (folder.root / "masks").glob("*.png"):
        mask = Image.open(path)
        mask.putpalette([7, 7, 7, 99, 0, 0, 0, 99, 0])
        mask.save(path)


def one_bit(folder: Folder) -> None:
    for number, mask_hw in enumerate(several((0, 1))):
        folder.add(str(number), (mask_hw * 255).astype(np.uint8), mask_hw, mode="1")


def with_suffix(folder: Folder) -> None:
    masks(0, 1, 2)(folder)
    for path in list((folder.root / "masks").glob("*.png")):
        path.rename(path.with_name(f"{path.stem}_mask.png"))


def with_pairs(folder: Folder) -> None:
    masks(0, 1, 2)(folder)
    lines = [f"images/{name}.png\tmasks/{name}.png" for name in "abcdef"]
    folder.write("train.tsv", "\n".join(lines[:4]))
    folder.write("val.tsv", "\n".join(lines[4:]))


def with_test(folder: Folder) -> None:
    in_folders(folder)
    (folder.root / "images/test").mkdir()
    Image.fromarray(noise("new")).save(folder.root / "images/test/new.png")


def photographs_as_masks(folder: Folder) -> None:
    folder.add_all([noise(f"mask {number}") for number in range(6)])


def jpeg_masks(folder: Folder) -> None:
    for number, mask_hw in enumerate(several((0, 1, 2))):
        folder.add(str(number), mask_hw, suffix=".jpg")


def wide_masks(folder: Folder) -> None:
    for number, mask_hw in enumerate(several((0, 1, 2))):
        wide_hw = mask_hw.astype(np.uint16)
        wide_hw[0, 0] = 1000 + number
        folder.add(str(number), wide_hw)


def turned(*turns: int, square: bool = False, upright: bool = True) -> Callable[[Folder], None]:
    """Write images with these EXIF orientations, and masks of the size that people see."""

    def make(folder: Folder) -> None:
        for number, mask_hw in enumerate(several((0, 1, 2))):
            turn = turns[number % len(turns)]
            mask_hw = mask_hw[:, :HEIGHT] if square else mask_hw
            size = mask_hw.shape[::-1] if upright and turn >= 5 else mask_hw.shape
            folder.add(str(number), mask_hw, turn=turn, size=size)

    return make


def half_turned(folder: Folder) -> None:
    """Write turned images of which only half have masks of the turned size."""
    for number, mask_hw in enumerate(several((0, 1, 2))):
        size = mask_hw.shape[::-1] if number % 2 else mask_hw.shape
        folder.add(str(number), mask_hw, turn=6, size=size)


def other_sizes(folder: Folder) -> None:
    masks(0, 1, 2)(folder)
    folder.add_mask("b", blocks((0, 1, 2))[:-2])


def swapped_sizes(folder: Folder) -> None:
    for number, mask_hw in enumerate(several((0, 1, 2))):
        folder.add(str(number), mask_hw, size=mask_hw.shape[::-1])


def without(*names: str) -> Callable[[Folder], None]:
    def make(folder: Folder) -> None:
        masks(0, 1, 2)(folder)
        for name in names:
            (folder.root / name).unlink()

    return make


def damaged(folder: Folder) -> None:
    masks(0, 1, 2)(folder)
    (folder.root / "images/a.png").write_bytes(b"")
    (folder.root / "images/c.png").write_bytes(b"no image")


def damaged_mask(folder: Folder) -> None:
    masks(0, 1, 2)(folder)
    path = folder.root / "masks/c.png"
    path.write_bytes(path.read_bytes()[:40])


def missing_in_pairs(folder: Folder) -> None:
    with_pairs(folder)
    (folder.root / "masks/b.png").unlink()
    (folder.root / "images/c.png").unlink()


def some_void(folder: Folder) -> None:
    masks(0, 1, 2)(folder)
    folder.add("g", np.full((HEIGHT, WIDTH), IGNORE, np.uint8))


def copied(source: str, target: str, with_mask: bool = True) -> Callable[[Folder], None]:
    def make(folder: Folder) -> None:
        in_folders(folder)
        for kind in ("images", "masks") if with_mask else ("images",):
            content = (folder.root / kind / f"{source}.png").read_bytes()
            (folder.root / kind / f"{target}.png").write_bytes(content)

    return make


def none_in_val(folder: Folder) -> None:
    for number in range(6):
        split, values = ("val", (0, 1)) if number > 3 else ("train", (0, 1, 2))
        folder.add(f"{split}/{number}", blocks(values, number))


def unknown_in_list(folder: Folder) -> None:
    with_lists(folder)
    folder.write("val.txt", "e\nnobody\n")


def no_masks_of_val(folder: Folder) -> None:
    in_folders(folder)
    for path in (folder.root / "masks/val").iterdir():
        path.unlink()
    (folder.root / "masks/val").rmdir()


def with_label_map_file(folder: Folder) -> None:
    coloured(RGB)(folder)
    lines = [f"{name}:{','.join(map(str, RGB[label]))}::" for label, name in enumerate(ABC)]
    folder.write("labelmap.txt", "# label:color_rgb:parts:actions\n" + "\n".join(lines))
