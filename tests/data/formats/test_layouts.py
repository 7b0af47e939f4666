"""Trees as public datasets and other programs leave them, and trees that nothing reads."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from reconet.cli import main
from reconet.data import formats
from reconet.errors import DataError
from reconet.types import IGNORE
from tests.data.formats.exports import save_mask, save_text
from tests.data.formats.test_formats import opened

PICTURE = np.full((8, 10, 3), 50, np.uint8)
CELLS_HW = np.array([[0, 1], [2, 1]], np.uint8).repeat(4, 0).repeat(5, 1)
COLOURS = np.array([(0, 0, 0), (128, 64, 128), (9, 9, 9)], np.uint8)
PET, ADE, CITY = ["background", "foreground"], 150, 19
CSV = "name,r,g,b\nsky,0,0,0\nroad,128,64,128\nVoid,9,9,9\n"
CITY_ENDS = ("_gtFine_color", "_gtFine_labelIds")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))


def write(
    root: Path, image: str, masks: dict[str, NDArray[np.uint8]], *texts: tuple[str, str]
) -> Path:
    """Write two images of train, one of val, and their masks."""
    for name, s, long in (
        ("a_1", "train", "training"),
        ("b_2", "train", "training"),
        ("c_3", "val", "validation"),
    ):
        save_mask(root / image.format(n=name, s=s, long=long), PICTURE)
        for mask, mask_hw in masks.items():
            save_mask(root / mask.format(n=name, s=s, long=long), mask_hw)
    for file, text in texts:
        save_text(root / file, text)
    return root


def white(*labels: int) -> NDArray[np.uint8]:
    return np.isin(CELLS_HW, labels).astype(np.uint8) * 255


LAYOUTS: dict[str, tuple[Any, ...]] = {
    # layout, with its masks: format, names of classes or their number, labels of 0, 1 and 2
    "a table of colours": (
        ("{s}/{n}.png", {"{s}_labels/{n}_L.png": COLOURS[CELLS_HW]}, ("class_dict.csv", CSV)),
        ("colour-masks", ["sky", "road"], [0, 1, IGNORE]),
    ),
    "vessels by two people": (
        ("{n}.jpg", {"{n}_2ndHO.png": white(0), "{n}_1stHO.png": white(1)}),
        ("black-white-masks", PET, [0, 1, 0]),
    ),
    "vessels of a GIF": (
        (
            "{s}/images/{n}_training.tif",
            {
                "{s}/mask/{n}_training_mask.gif": white(0),
                "{s}/1st_manual/{n}_manual1.gif": white(2),
            },
        ),
        ("black-white-masks", PET, [0, 0, 1]),
    ),
    "cars of a GIF": (
        ("train/{n}.jpg", {"train_masks/{n}_mask.gif": white(1)}),
        ("black-white-masks", PET, [0, 1, 0]),
    ),
    "photographs from above": (
        ("{s}/{n}_sat.jpg", {"{s}/{n}_mask.png": CELLS_HW}),
        ("index-masks", ["class 0", "class 1", "class 2"], [0, 1, 2]),
    ),
    "pets": (
        ("images/{n}.jpg", {"annotations/trimaps/{n}.png": CELLS_HW + np.uint8(1)}),
        ("index-masks", PET, [1, 0, IGNORE]),
    ),
    "ADE": (
        ("images/{long}/{n}.jpg", {"annotations/{long}/{n}.png": CELLS_HW}),
        ("index-masks", ["class 0", "class 1", "class 2"], [0, 1, 2]),
    ),
    "ADE with its names": (
        (
            "images/{long}/{n}.jpg",
            {"annotations/{long}/{n}.png": CELLS_HW},
            ("objectInfo150.txt", "Idx\tName\n1\twall\n"),
        ),
        ("index-masks", ADE, [IGNORE, 0, 1]),
    ),
    "Cityscapes": (
        (
            "leftImg8bit/{s}/ulm/{n}_leftImg8bit.png",
            {f"gtFine/{{s}}/ulm/{{n}}{end}.png": CELLS_HW + np.uint8(6) for end in CITY_ENDS},
        ),
        ("index-masks", CITY, [IGNORE, 0, 1]),
    ),
    "a folder for each class": (
        ("images/{n}.jpg", {"masks/car/{n}.png": white(1), "masks/road/{n}.png": white(1, 2)}),
        ("class-folders", ["background", "car", "road"], [0, 1, 2]),
    ),
    "folders of classes beside the images": (
        (
            "{s}/images/{n}.jpg",
            {"{s}/car/{n}.png": white(1), "{s}/void/{n}.png": white(2)},
        ),
        ("class-folders", ["background", "car"], [0, 1, IGNORE]),
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_recognised_and_its_labels_are_right(tmp_path: Path, name: str) -> None:
    layout, (form, classes, meant) = LAYOUTS[name]
    found = formats.read_folder(write(tmp_path / "mine", *layout))
    assert found.format == form
    names = found.data.options["classes"]
    assert (len(names) if isinstance(classes, int) else names) == classes
    formats.keep(found.data, workers=0)
    splits = opened(found)
    assert [len(one) for one in splits] == [2, 1]
    for dataset in splits:
        for _, _, label_hw in dataset:  # type: ignore[attr-defined]
            np.testing.assert_array_equal(label_hw, np.array(meant, np.uint8)[CELLS_HW])


def test_inspect_names_the_layout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout, _ = LAYOUTS["vessels by two people"]
    mine = write(tmp_path / "mine", *layout)
    main(["data", "inspect", str(mine), "--json", "--device=cpu", "--workers=0"])
    values = json.loads(capsys.readouterr().out)
    assert values["format"] == "black-white-masks"
    assert "masks such as a_1_1stHO.png" in values["evidence"]
    assert values["check"]["classes"] == PET


def test_regions_of_via_have_four_shapes_and_a_class_or_none(tmp_path: Path) -> None:
    shapes: list[dict[str, Any]] = [
        {"name": "rect", "x": 0, "y": 0, "width": 4, "height": 2},
        {"name": "circle", "cx": 8, "cy": 2, "r": 1.5},
        {"name": "ellipse", "cx": 5, "cy": 6, "rx": 1, "ry": 4, "theta": np.pi / 2},
        {"name": "point", "cx": 1, "cy": 1},
    ]
    regions = [{"shape_attributes": s, "region_attributes": {"class": s["name"]}} for s in shapes]
    save_mask(tmp_path / "a.png", PICTURE)
    save_mask(tmp_path / "b.png", PICTURE)
    images = {
        f"{name}9": {"filename": name, "regions": dict(enumerate(regions))}
        for name in ("a.png", "b.png")
    }
    save_text(tmp_path / "via.json", json.dumps({"_via_img_metadata": images}))
    found = formats.read_folder(tmp_path)
    assert found.format == "via"
    assert found.data.options["classes"] == ["background", "circle", "ellipse", "rect"]
    assert any(note.startswith("left out: points and lines: 2") for note in found.data.notes)
    label_hw = opened(found)[0][0].label_hw
    assert label_hw[:2, :4].tolist() == [[3] * 4] * 2
    assert np.bincount(label_hw.ravel())[1:].tolist() == [4, 12, 8]
    assert set(label_hw[5:7, 2:8].ravel().tolist()) == {2}
    for region in regions:
        region["region_attributes"] = {}
    save_text(tmp_path / "via.json", json.dumps({"_via_img_metadata": images}))
    found = formats.read_folder(tmp_path)
    assert found.data.options["classes"] == ["background", "object"]
    assert any("no attribute that names a class" in note for note in found.data.notes)


BOXES = {"images": [], "categories": [], "annotations": [{"id": 1, "bbox": [0, 0, 2, 2]}] * 2}


@pytest.mark.parametrize(
    ("image", "masks", "texts", "says"),
    [
        ("{n}.jpg", (), [("a.json", json.dumps(BOXES))], "a.json is COCO with boxes only (2 boxes"),
        ("{n}.jpg", (), [("a_1.xml", "<annotation><bndbox>")], "a Pascal VOC file with boxes only"),
        ("{n}.jpg", (), [("a_1.txt", "0 0.5 0.5 1 1\n")], "there is no data.yaml"),
        ("images/{n}.jpg", ("masks/x{n}.png",), [], "for images/a_1.jpg expected a_1.png"),
        ("one/{n}.jpg", ("two/{n}.png",), [], "one/ and two/ hold files of the same names"),
        ("{n}.jpg", (), [("a.npy", "")], "Masks such as a.npy are not read"),
        ("{n}.jpg", (), [], "3 pictures and nothing else. Nearest are masks"),
    ],
)
def test_a_folder_of_no_format_is_told_what_is_there_and_what_is_missing(
    tmp_path: Path, image: str, masks: tuple[str, ...], texts: list[tuple[str, str]], says: str
) -> None:
    write(tmp_path, image, dict.fromkeys(masks, CELLS_HW), *texts)
    with pytest.raises(DataError) as caught:
        formats.read_folder(tmp_path)
    text = str(caught.value)
    assert says in text
    assert "3 pictures" in text or "6 pictures" in text
    assert "\n" not in text


def test_labels_without_pictures_are_told(tmp_path: Path) -> None:
    save_text(tmp_path / "a.txt", "x")
    with pytest.raises(DataError, match=r"0 pictures and 1 \.txt\. Labels need the pictures"):
        formats.read_folder(tmp_path)


def test_a_gif_renumbers_its_greys_and_they_count(tmp_path: Path) -> None:
    layout, _ = LAYOUTS["cars of a GIF"]
    root = write(tmp_path / "mine", *layout)
    image = Image.fromarray(1 - white(1) // 255, "P")
    image.putpalette([255, 255, 255, 0, 0, 0])  # as some programs order it
    image.save(root / "train_masks/b_2_mask.gif")
    for dataset in opened(formats.read_folder(root)):
        for _, _, label_hw in dataset:  # type: ignore[attr-defined]
            np.testing.assert_array_equal(label_hw, white(1) // 255)


def test_two_categories_of_one_name_are_one_class_with_a_note(tmp_path: Path) -> None:
    ring = {"segmentation": [[1, 1, 5, 1, 5, 5]], "image_id": 1}
    content = {
        "images": [{"id": 1, "file_name": "a.png", "height": 8, "width": 10}],
        "annotations": [ring | {"category_id": 0}, ring | {"category_id": 1}],
        "categories": [{"id": 0, "name": "fire"}, {"id": 1, "name": "fire"}],
    }
    save_mask(tmp_path / "a.png", PICTURE)
    save_text(tmp_path / "a.json", json.dumps(content))
    found = formats.read_folder(tmp_path).data
    assert found.options["classes"] == ["background", "fire"]
    assert found.notes == ("merged: classes of one name in a.json (fire)",)
