"""Makers of folders, right or wrong in one way each."""

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from reconet.types import IGNORE
from tests.data.check.folders import HEIGHT, WIDTH, Folder, blocks, looked_up, noise, several

ABC = ("wall", "door", "floor")
RGB = {0: (10, 20, 30), 1: (200, 0, 0), 2: (0, 180, 90), IGNORE: (1, 1, 1)}
Make = Callable[[Folder], None]


def masks(*values: int, mode: str | None = None, like: tuple[int, ...] | None = None) -> Make:
    """Return a maker of masks with these values, which mean the labels `like`."""

    def make(folder: Folder) -> None:
        drawn = several(values)
        truth = looked_up(drawn, dict(zip(values, like or values, strict=True)))
        for number, mask_hw in enumerate(drawn):
            grey_hw = np.stack([mask_hw] * 3, -1) if mode else mask_hw
            folder.add(chr(97 + number), grey_hw, truth[number], mode=mode)

    return make


def coloured(colours: dict[int, Any], *labels: int) -> Make:
    table_n3 = np.zeros((256, 3), np.uint8)
    for label, colour in colours.items():
        table_n3[label] = colour
    drawn = several(labels or (0, 1, 2))
    return lambda folder: folder.add_all([table_n3[mask_hw] for mask_hw in drawn], drawn)


def folders(**names: str) -> Make:
    """Write masks into folders train and val, or called otherwise."""

    def make(folder: Folder) -> None:
        for number, mask_hw in enumerate(several((0, 1, 2))):
            split = "val" if number > 3 else "train"
            folder.add(f"{names.get(split, split)}/{number}", mask_hw)

    return make


def only_train(folder: Folder) -> None:
    for number, mask_hw in enumerate(several((0, 1, 2))):
        folder.add(f"train/{number}", mask_hw)


def split_first(folder: Folder) -> None:
    folders()(folder)
    for split in ("train", "val"):
        (folder.root / split).mkdir()
        for kind in ("images", "masks"):
            (folder.root / kind / split).rename(folder.root / split / kind)


def with_suffix(folder: Folder) -> None:
    masks(0, 1, 2)(folder)
    for path in list((folder.root / "masks").glob("*.png")):
        path.rename(path.with_name(f"{path.stem}_mask.png"))


def beside(folder: Folder) -> None:
    with_suffix(folder)
    for path in list(folder.root.glob("*/*.png")):
        path.rename(folder.root / path.name)


def with_lists(val: str = "e\nf\n") -> Make:
    def make(folder: Folder) -> None:
        masks(0, 1, 2)(folder)
        folder.write("train.txt", "a\nb\nc\nd\n")
        folder.write("val.txt", val)

    return make


def with_pairs(*missing: str) -> Make:
    def make(folder: Folder) -> None:
        without(*missing)(folder)
        lines = [f"images/{name}.png\tmasks/{name}.png" for name in "abcdef"]
        folder.write("train.tsv", "\n".join(lines[:4]))
        folder.write("val.tsv", "\n".join(lines[4:]))

    return make


def without(*names: str) -> Make:
    def make(folder: Folder) -> None:
        masks(0, 1, 2)(folder)
        for name in names:
            (folder.root / name).unlink()

    return make


def with_palette(folder: Folder) -> None:
    masks(0, 1, 2)(folder)
    for path in (folder.root / "masks").glob("*.png"):
        mask = Image.open(path)
        mask.putpalette([7, 7, 7, 99, 0, 0, 0, 99, 0])
        mask.save(path)


def with_test(folder: Folder) -> None:
    folders()(folder)
    (folder.root / "images/test").mkdir()
    Image.fromarray(noise("new")).save(folder.root / "images/test/new.png")


def with_label_map_file(folder: Folder) -> None:
    coloured(RGB)(folder)
    lines = [f"{name}:{','.join(map(str, RGB[label]))}::" for label, name in enumerate(ABC)]
    folder.write("labelmap.txt", "# label:color_rgb:parts:actions\n" + "\n".join(lines))


def jpeg_masks(folder: Folder) -> None:
    for number, mask_hw in enumerate(several((0, 1, 2))):
        folder.add(str(number), mask_hw, suffix=".jpg")


def wide_masks(folder: Folder) -> None:
    for number, mask_hw in enumerate(several((0, 1, 2))):
        wide_hw = mask_hw.astype(np.uint16)
        wide_hw[0, 0] = 1000 + number
        folder.add(str(number), wide_hw)


def turned(*turns: int, square: bool = False, upright: bool = True, every: int = 1) -> Make:
    """Write images with these EXIF orientations, and masks of the size that people see."""

    def make(folder: Folder) -> None:
        for number, mask_hw in enumerate(several((0, 1, 2))):
            turn = turns[number % len(turns)]
            mask_hw = mask_hw[:, :HEIGHT] if square else mask_hw
            seen = upright and turn >= 5 and number % every == 0
            size = mask_hw.shape[::-1] if seen else mask_hw.shape
            folder.add(str(number), mask_hw, turn=turn, size=size)

    return make


def other_sizes(folder: Folder) -> None:
    masks(0, 1, 2)(folder)
    folder.add_mask("b", blocks((0, 1, 2))[:-2])


def swapped_sizes(folder: Folder) -> None:
    for number, mask_hw in enumerate(several((0, 1, 2))):
        folder.add(str(number), mask_hw, size=mask_hw.shape[::-1])


def damaged(**files: bytes) -> Make:
    def make(folder: Folder) -> None:
        masks(0, 1, 2)(folder)
        for name, content in files.items():
            (folder.root / f"{name.replace('_', '/')}.png").write_bytes(content)

    return make


def some_void(folder: Folder) -> None:
    masks(0, 1, 2)(folder)
    folder.add("g", np.full((HEIGHT, WIDTH), IGNORE, np.uint8))


def copied(source: str, target: str, with_mask: bool = True) -> Make:
    def make(folder: Folder) -> None:
        folders()(folder)
        for kind in ("images", "masks") if with_mask else ("images",):
            content = (folder.root / kind / f"{source}.png").read_bytes()
            (folder.root / kind / f"{target}.png").write_bytes(content)

    return make


def none_in_val(folder: Folder) -> None:
    for number in range(6):
        split, values = ("val", (0, 1)) if number > 3 else ("train", (0, 1, 2))
        folder.add(f"{split}/{number}", blocks(values, number))


def no_masks_of_val(folder: Folder) -> None:
    folders()(folder)
    (folder.root / "masks/val").rename(folder.root / "elsewhere")


def void_between(*values: int, void: int) -> Make:
    """Draw a line between all squares, as annotators do who leave borders out."""

    def make(folder: Folder) -> None:
        drawn = several(values)
        for mask_hw in drawn:
            mask_hw[:, 7::8] = mask_hw[7::8] = void
        truth = [mask_hw - np.uint8(void == 0) for mask_hw in drawn]  # from 1 on, if 0 is void
        folder.add_all(drawn, truth)

    return make


def stray(value: int, *values: int) -> Make:
    """Draw three pixels of a number that is a mistake, in one mask."""

    def make(folder: Folder) -> None:
        drawn, truth = several(values), several(values)
        drawn[2][5, 5:8], truth[2][5, 5:8] = value, IGNORE
        folder.add_all(drawn, truth)

    return make


def smooth(folder: Folder) -> None:
    """Draw white on black, with grey edges."""
    for number in range(6):
        mask_hw = np.zeros((HEIGHT, WIDTH), np.uint8)
        mask_hw[6:18, 8 + number : 24 + number] = 255
        truth_hw = (mask_hw > 0).astype(np.uint8)
        for place in range(12):
            grey = 5 + 3 * (12 * number + place)
            label = 0 if grey < 64 else 1 if grey >= 192 else IGNORE
            mask_hw[6 + place, 8 + number], truth_hw[6 + place, 8 + number] = grey, label
        folder.add(str(number), mask_hw, truth_hw)
