"""Folders of masks: where they are, and what their values mean."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from reconet.data import formats, open_dataset
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
    root = write(tmp_path / "mine", image, mask)
    found = formats.read_folder(root)
    assert found.format in ("index-masks", "voc")
    assert found.data.options["classes"] == ["class 0", "class 1", "class 2"]
    formats.keep(found.data, workers=0)
    options = formats.folder_options(found.data)
    splits = [open_dataset("folder", split, root, options) for split in ("train", "val")]
    assert tuple(map(len, splits)) == counts


@pytest.mark.parametrize(
    ("values", "form", "options"),
    [
        (
            (0, 255, 255),
            "black-white-masks",
            {
                "classes": ["background", "foreground"],
                "label_map": {"0": "background", "255": "foreground"},
            },
        ),
        (
            (7, 50, 255),
            "index-masks",
            {
                "classes": ["class 7", "class 50"],
                "label_map": {"7": "class 7", "50": "class 50", "255": "ignore"},
            },
        ),
        (
            ((0, 0, 0), (255, 128, 0), (1, 2, 3)),
            "colour-masks",
            {
                "classes": ["background", "#ff8000", "#010203"],
                "colours": {
                    "background": [0, 0, 0],
                    "#ff8000": [255, 128, 0],
                    "#010203": [1, 2, 3],
                },
            },
        ),
    ],
)
def test_values_without_names_are_named_after_themselves(
    tmp_path: Path, values: tuple[Any, ...], form: str, options: dict[str, Any]
) -> None:
    mask_hw = np.array(values, np.uint8)[MASK_HW]
    found = formats.read_folder(write(tmp_path, "images/{name}.jpg", "masks/{name}.png", mask_hw))
    assert found.format == form
    assert dict(found.data.options) == options


def test_grey_edges_of_black_and_white_are_void(tmp_path: Path) -> None:
    mask_hw = np.zeros((40, 256), np.uint8)
    mask_hw[10:] = 255
    mask_hw[10] = np.arange(256)
    found = formats.read_folder(write(tmp_path, "images/{name}.jpg", "masks/{name}.png", mask_hw))
    assert found.format == "black-white-masks"
    assert found.data.options["label_map"] == {
        "0-63": "background",
        "64-191": "ignore",
        "192-255": "foreground",
    }


def test_names_come_from_a_list_of_labelme_or_a_label_map(tmp_path: Path) -> None:
    root = write(tmp_path, "images/{name}.jpg", "masks/{name}.png")
    (root / "class_names.txt").write_text("__ignore__\n_background_\ncat\ndog\n")
    assert formats.read_folder(root).data.options["classes"] == ["background", "cat", "dog"]
    (root / "class_names.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match="names 2 classes, and masks hold the number 2"):
        formats.read_folder(root)
    (root / "labelmap.txt").write_text("background:0,0,0::\ncat:250,0,0::\ndog:0,250,0::\n")
    assert formats.read_folder(root).data.options["label_map"]["2"] == "dog"


def test_masks_of_cvat_without_images_say_what_is_missing(tmp_path: Path) -> None:
    save(tmp_path / "SegmentationClass/a.png", MASK_HW)
    (tmp_path / "ImageSets/Segmentation").mkdir(parents=True)
    (tmp_path / "ImageSets/Segmentation/default.txt").write_text("a\n")
    with pytest.raises(DataError, match="there are no images in"):
        formats.read_folder(tmp_path)


def test_a_name_that_no_list_can_hold_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path, "{split}/x\t{name}.jpg", "{split}/x\t{name}_mask.png")
    found = formats.read_folder(root)
    with pytest.raises(DataError, match="no list can hold its name"):
        formats.keep(found.data, workers=0)
