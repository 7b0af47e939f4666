"""Folders of masks: where they are, and what their values mean."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from reconet.data.formats import Recognised, folder_options, keep, open_drawn, read_folder
from reconet.data.options import read_options
from reconet.data.registry import open_dataset
from reconet.data.sets.folder_masks import FolderOptions
from reconet.errors import DataError

MASK_HW = np.array([[0, 1], [2, 1]], np.uint8).repeat(4, 0).repeat(5, 1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))


def save(path: Path, array: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def write(root: Path, image: str, mask: str, mask_hw: NDArray[np.uint8] = MASK_HW) -> Path:
    """Write images and masks, by names with {name} and {split} in them."""
    for split, names in (("train", "abcd"), ("val", "ef")):
        for name in names:
            save(root / image.format(name=name, split=split), np.full((8, 10, 3), 50, np.uint8))
            save(root / mask.format(name=name, split=split), mask_hw)
    return root


def splits(found: Recognised) -> dict[str, int]:
    keep(found.data, workers=0)
    options, root = folder_options(found.data), found.data.folder
    return {s: len(open_dataset("folder", s, root, options)) for s in ("train", "val")}


@pytest.mark.parametrize(
    ("image", "mask", "counts"),
    [
        ("images/{name}.jpg", "masks/{name}.png", (5, 1)),
        ("images/{split}/{name}.jpg", "masks/{split}/{name}.png", (4, 2)),
        ("imgs/{name}.jpg", "labels/{name}.png", (5, 1)),
        ("{split}/images/{name}.jpg", "{split}/masks/{name}.png", (4, 2)),
        ("{split}/{name}.jpg", "{split}_masks/{name}.png", (4, 2)),
        ("{split}/{name}.png", "{split}annot/{name}.png", (4, 2)),
        ("{split}/{name}.jpg", "{split}/{name}_mask.png", (4, 2)),
        ("{name}.jpg", "{name}_mask.png", (5, 1)),
        ("{name}.jpg", "masks/{name}.png", (5, 1)),
        ("deep/in/images/{name}.jpg", "deep/in/gt/{name}_gt.png", (5, 1)),
        ("images/{name}.jpg", "masks/{name}_lab.png", (5, 1)),
        ("JPEGImages/{name}.jpg", "SegmentationClass/{name}.png", (5, 1)),
    ],
)
def test_images_and_masks_are_found_in_many_layouts(
    tmp_path: Path, image: str, mask: str, counts: tuple[int, int]
) -> None:
    found = read_folder(write(tmp_path / "mine", image, mask))
    assert found.format in ("index-masks", "voc")
    assert tuple(splits(found).values()) == counts
    assert found.data.options["classes"] == ["class 0", "class 1", "class 2"]


def options_of(root: Path, mask_hw: NDArray[np.uint8]) -> tuple[str, FolderOptions]:
    found = read_folder(write(root, "images/{name}.jpg", "masks/{name}.png", mask_hw))
    return found.format, read_options(FolderOptions, folder_options(found.data))


def test_black_and_white_is_background_and_foreground(tmp_path: Path) -> None:
    form, options = options_of(tmp_path, MASK_HW.clip(max=1) * np.uint8(255))
    assert form == "black-white-masks"
    assert options.classes == ("background", "foreground")
    assert options.label_map == {0: "background", 255: "foreground"}


def test_grey_edges_of_black_and_white_are_void(tmp_path: Path) -> None:
    mask_hw = np.zeros((40, 256), np.uint8)
    mask_hw[10:] = 255
    mask_hw[10] = np.arange(256)
    form, options = options_of(tmp_path, mask_hw[:, :256])
    assert form == "black-white-masks"
    assert options.label_map is not None
    assert [options.label_map[n] for n in (0, 63, 64, 191, 192, 255)] == [
        "background", "background", "ignore", "ignore", "foreground", "foreground",
    ]  # fmt: skip


def test_numbers_with_gaps_keep_their_numbers_as_names(tmp_path: Path) -> None:
    table = np.array([7, 50, 255], np.uint8)
    form, options = options_of(tmp_path, table[MASK_HW])
    assert form == "index-masks"
    assert options.classes == ("class 7", "class 50")
    assert options.label_map == {7: "class 7", 50: "class 50", 255: "ignore"}


def test_colours_without_names_are_called_by_their_digits(tmp_path: Path) -> None:
    table = np.array([[0, 0, 0], [255, 128, 0], [1, 2, 3]], np.uint8)
    form, options = options_of(tmp_path, table[MASK_HW])
    assert form == "colour-masks"
    assert options.colours is not None
    assert options.colours["background"] == ((0, 0, 0),)
    assert options.colours["#ff8000"] == ((255, 128, 0),)


def test_names_come_from_a_list_of_labelme_too(tmp_path: Path) -> None:
    root = write(tmp_path, "images/{name}.jpg", "masks/{name}.png")
    (root / "class_names.txt").write_text("__ignore__\n_background_\ncat\ndog\n")
    assert read_folder(root).data.options["classes"] == ["background", "cat", "dog"]
    (root / "class_names.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match="names 2 classes, and masks hold the number 2"):
        read_folder(root)


def test_a_label_map_beside_masks_of_numbers_gives_their_order(tmp_path: Path) -> None:
    root = write(tmp_path, "images/{name}.jpg", "masks/{name}.png")
    (root / "labelmap.txt").write_text("background:0,0,0::\ncat:250,0,0::\ndog:0,250,0::\n")
    found = read_folder(root)
    options = read_options(FolderOptions, folder_options(found.data))
    assert options.label_map is not None
    assert options.label_map[2] == "dog"


def test_masks_of_cvat_without_images_say_what_is_missing(tmp_path: Path) -> None:
    save(tmp_path / "SegmentationClass/a.png", MASK_HW)
    (tmp_path / "ImageSets/Segmentation").mkdir(parents=True)
    (tmp_path / "ImageSets/Segmentation/default.txt").write_text("a\n")
    with pytest.raises(DataError, match="there are no images in"):
        read_folder(tmp_path)


def test_a_name_that_no_list_can_hold_is_refused(tmp_path: Path) -> None:
    found = read_folder(write(tmp_path, "{split}/x\t{name}.jpg", "{split}/x\t{name}_mask.png"))
    options = read_options(FolderOptions, folder_options(found.data))
    with pytest.raises(DataError, match="no list can hold its name"):
        open_drawn(found.data, options)
