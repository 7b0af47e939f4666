"""Broken and hostile files of each format: one line that names the file, and no harm."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reconet.data import formats
from reconet.errors import ReconetError
from tests.data.formats.exports import EXPORTS, Scene, save_image

CLASSES = ("road", "roof", "tree")
LABEL_HW = np.array([[0, 0, 1, 1], [2, 2, 1, 255]], np.uint8).repeat(5, 0).repeat(4, 1)
SCENES = [
    Scene(name, split, np.full((10, 16, 3), 90, np.uint8), LABEL_HW)
    for name, split in (("a", "train"), ("b", "val"))
]
JSON_FORMATS = ("coco", "coco-panoptic", "labelme", "label-studio", "label-studio-png", "via")
STRANGE: tuple[Any, ...] = (
    None, True, -1, 10**30, 10**309, 1e308,
    float("nan"), "x\n\x1b[2J", "", [], {}, [[]], [0, 1], {"a": 1},
)  # fmt: skip
COCO = "annotations/instances_train2017.json"


def read_and_draw(root: Path, form: str) -> None:
    for one in formats.read_folder(root, form).data.images:
        if not isinstance(one.labels, Path):
            formats.draw(one.labels)


def failure(root: Path, form: str) -> str:
    with pytest.raises(ReconetError) as caught:
        read_and_draw(root, form)
    text = str(caught.value)
    assert "\n" not in text
    return text


def write(root: Path, form: str) -> Path:
    EXPORTS[form](root, SCENES, CLASSES)
    return root


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value inside a json."""
    yield path
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(child, (*path, key))


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("form", JSON_FORMATS)
def test_a_strange_value_anywhere_in_a_json_is_read_or_refused_in_one_line(
    tmp_path: Path, form: str
) -> None:
    file = next(write(tmp_path, form).rglob("*.json"))
    good = json.loads(file.read_text())
    everywhere = list(places(good))
    rng = np.random.default_rng(0)
    for number in range(260):
        where = everywhere[int(rng.integers(len(everywhere)))]
        new = STRANGE[number % len(STRANGE)]
        file.write_text(json.dumps(changed(good, where, new)))
        try:
            read_and_draw(tmp_path, form)
            text = ""
        except ReconetError as error:
            text = str(error)
        assert "\n" not in text, (where, new)


@pytest.mark.parametrize(
    ("form", "file", "where", "value", "reason"),
    [
        ("coco", COCO, ("annotations", 1, "category_id"), 99, "no category has the id 99"),
        ("coco", COCO, ("annotations", 1, "image_id"), 99, "no image has the id 99"),
        *(
            ("coco", COCO, ("annotations", 1, "segmentation"), value, reason)
            for value, reason in (
                ([[0, 0, "x", 1, 1, 1]], "'x' is no coordinate"),
                ([[0, 0, 1, 1, 1]], "a polygon is a list x, y, x, y"),
                ({"size": [3, 3], "counts": [9]}, "run lengths do not fill"),
                ([[0, 0, 1e9, 0, 1, 1]], "its points are not near the image"),
                (5, "neither polygons nor run lengths"),
            )
        ),
        ("coco", COCO, ("categories", 1, "id"), 1, "the id 1 is that of 'road' already"),
        ("labelme", "train/a.json", ("shapes", 1, "points"), 5, "there are no points"),
        (
            "coco-panoptic",
            "annotations/panoptic_train2017.json",
            ("annotations", 0, "segments_info", 1, "id"),
            300,
            "segments_info[1]: the id 300 is there already",
        ),
    ],
)
def test_an_element_of_a_json_that_cannot_be_drawn_is_named(
    tmp_path: Path, form: str, file: str, where: tuple[Any, ...], value: Any, reason: str
) -> None:
    path = write(tmp_path, form) / file
    path.write_text(json.dumps(changed(json.loads(path.read_text()), where, value)))
    text = failure(tmp_path, form)
    assert f"{path}, {where[0]}[{where[1]}]: " in text
    assert reason in text


def test_annotations_with_boxes_only_are_left_out_and_counted(tmp_path: Path) -> None:
    file = write(tmp_path / "coco", "coco") / COCO
    content = changed(json.loads(file.read_text()), ("annotations", 0, "segmentation"), [])
    file.write_text(json.dumps(content))
    notes = formats.read_folder(tmp_path / "coco").data.notes
    assert any("without an area: 1 (annotations[0])" in note for note in notes)
    for text in write(tmp_path / "yolo", "yolo").rglob("*.txt"):
        text.write_text("0 0.5 0.5 0.2 0.2\n")
    assert "has no region with a class. left out: boxes" in failure(tmp_path / "yolo", "yolo")


def coco(name: str) -> dict[str, Any]:
    ring = {"image_id": 1, "category_id": 1, "segmentation": [[1, 1, 5, 1, 5, 5]]}
    return {
        "images": [{"id": 1, "file_name": name, "height": 10, "width": 16}],
        "annotations": [ring],
        "categories": [{"id": 1, "name": "road"}],
    }


def label_file(root: Path, form: str, name: str) -> None:
    """Write labels of one image, which they call by `name`."""
    box = {"x": 10, "y": 10, "width": 50, "height": 50, "rectanglelabels": ["road"]}
    size = {"original_width": 16, "original_height": 10}
    shape = {"label": "road", "points": [[1, 1], [5, 1], [5, 5]]}
    contents: dict[str, tuple[str, object]] = {
        "coco": ("instances.json", coco(name)),
        "label-studio": (
            "tasks.json",
            [{"image": f"/data/local-files/?d={name}", "label": [box | size]}],
        ),
        "labelme": (
            f"{Path(name).parent}/a.json",
            {"shapes": [shape], "imagePath": Path(name).name},
        ),
        "cvat": (
            "annotations.xml",
            f'<annotations><image name="{name}" width="16" height="10">'
            '<polygon label="road" points="1,1;5,1;5,5"/></image></annotations>',
        ),
        "yolo": ("data.yaml", "names: [road]\ntrain: list.txt\n"),
    }
    file, content = contents[form]
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(content if isinstance(content, str) else json.dumps(content))
    if form == "yolo":
        (root / "list.txt").write_text(f"./{name}\n")
        for image in root.rglob("*.png"):
            image.with_suffix(".txt").write_text("0 0.1 0.1 0.5 0.1 0.5 0.5\n")


@pytest.mark.parametrize("form", ["coco", "label-studio", "labelme", "cvat", "yolo"])
def test_an_image_is_not_taken_for_one_of_another_folder_or_split(
    tmp_path: Path, form: str
) -> None:
    save_image(tmp_path / "seq1/0000.png", SCENES[0])
    label_file(tmp_path, form, "seq2/0000.png")
    assert "only seq1/0000.png: another image?" in failure(tmp_path, form)
    save_image(tmp_path / "seq2/0000.png", SCENES[0])
    label_file(tmp_path, form, "seq2/0000.png")
    assert [one.image for one in formats.read_folder(tmp_path).data.images] == [
        Path("seq2/0000.png")
    ]
    if form != "labelme":
        save_image(tmp_path / "more/images/train/0000.png", SCENES[0])
        label_file(tmp_path / "more", form, "images/val/0000.png")
        text = failure(tmp_path / "more", form)
        assert "of val, and there is only images/train/0000.png" in text


def test_a_json_of_val_is_not_that_of_images_of_train(tmp_path: Path) -> None:
    save_image(tmp_path / "train2017/0000.png", SCENES[0])
    (tmp_path / "instances_val2017.json").write_text(json.dumps(coco("0000.png")))
    assert "of val, and there is only train2017/0000.png" in failure(tmp_path, "coco")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("/home/me/shots/0000.png", "images/0000.png"),
        ("C:\\shots\\0000.png", "0000.png"),
        ("images/0000.png", "garden/0000.png"),
        ("/data/garden/0000.png", "mine/garden/0000.png"),
        ("0000.png", "garden/train2017/0000.png"),
        ("shots/train/0000.png", "images/train/0000.png"),
    ],
)
def test_folders_of_another_machine_do_not_hide_an_image(
    tmp_path: Path, name: str, place: str
) -> None:
    save_image(tmp_path / place, SCENES[0])
    label_file(tmp_path, "coco", name)
    assert [one.image for one in formats.read_folder(tmp_path).data.images] == [Path(place)]


def test_files_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    for form in ("yolo", "label-studio", "coco"):
        save_image(tmp_path / form / "a.png", SCENES[0])
        label_file(tmp_path / form, form, "a.png")
    (tmp_path / "yolo/other.yaml").write_text("names: [roof]\n")
    assert "data.yaml and other.yaml name different classes" in failure(tmp_path / "yolo", "yolo")
    for form, file in (("label-studio", "tasks.json"), ("coco", "instances.json")):
        text = (tmp_path / form / file).read_text()
        (tmp_path / form / f"instances_{file}").write_text(text)
        (tmp_path / form / file).rename(tmp_path / form / f"instances_2{file}")
        assert "both label a.png" in failure(tmp_path / form, form)
        (tmp_path / form / f"instances_{file}").unlink()
    content = coco("a.png")
    content["images"].append(content["images"][0] | {"id": 2})
    (tmp_path / "coco/instances_2instances.json").write_text(json.dumps(content))
    assert "labels twice a.png" in failure(tmp_path / "coco", "coco")


def test_what_is_ambiguous_in_label_studio_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path / "png", "label-studio-png")
    (root / "tasks.json").unlink()
    save_image(root / "images/1.png", SCENES[0])
    save_image(root / "images/task-1.png", SCENES[0])
    assert "may be images/1.png or images/task-1.png" in failure(root, "label-studio-png")
    save_image(tmp_path / "json/a.png", SCENES[0])
    label_file(tmp_path / "json", "label-studio", "a.png")
    file = tmp_path / "json/tasks.json"
    file.write_text(file.read_text().replace('["road"]', '["road", "roof"]'))
    text = failure(tmp_path / "json", "label-studio")
    assert "[0].label[0]: a region has one label, not 2" in text


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0 0.1 0.1 0.2 0.2 0.3", "5 numbers are no polygon"),
        ("7 0.1 0.1 0.2 0.2 0.3 0.4", "there is no class 7"),
        ("0 0.1 0.1 0.2 nan 0.3 0.4", "fractions from 0 to 1"),
        ("0 10 10 20 20 30 40", "fractions from 0 to 1"),
        ("road 0.1 0.1 0.2 0.2 0.3 0.4", "'road'"),
        ("0.9 0.1 0.1 0.2 0.2 0.3 0.4", "the class '0.9' is no whole number"),
        ("inf 0.1 0.1 0.2 0.2 0.3 0.4", "the class 'inf' is no whole number"),
    ],
)
def test_a_wrong_line_of_yolo_is_named(tmp_path: Path, line: str, reason: str) -> None:
    file = write(tmp_path, "yolo") / "labels/train/a.txt"
    file.write_text(f"\n{line}\n")
    text = failure(tmp_path, "yolo")
    assert f"{file}, line 2: " in text
    assert reason in text


BOMB = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>
<annotations><image name="&b;" width="16" height="10"/></annotations>"""
FILE = '<annotations><meta/><image name="a.png" width="16" height="10">{}</image></annotations>'
MASK = '<mask label="road" rle="1,2" left="0" top="0" width="2" height="2"/>'


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (BOMB, "has a document type or entities, which are not read"),
        (FILE.format('<polygon label="road" points="1,1;2"/>'), "image 'a.png', polygon 1"),
        (FILE.format('<polygon label="road"/>'), "there is no 'points'"),
        (FILE.format(MASK), "fill"),
        (FILE.format('<box label="" xtl="1" ytl="1" xbr="2" ybr="2"/>'), "is no name of a class"),
        (FILE.format('<polygon label="r" points="1,1;nan,2;3,4"/>'), "'nan' is no coordinate"),
        ('<annotations><track id="0"/></annotations>', "export it as CVAT for images 1.1"),
        ("<annotations>" + "<a>" * 100_000, "line 1: no element found"),
        ("<annotations><image>", "line 1: no element found"),
        (FILE.replace('"16"', '"999999999"').format(""), "is no size of an image"),
    ],
)
def test_a_hostile_xml_is_refused_in_one_line(tmp_path: Path, content: str, reason: str) -> None:
    write(tmp_path, "cvat")
    (tmp_path / "annotations.xml").write_text(content)
    text = failure(tmp_path, "cvat")
    assert str(tmp_path / "annotations.xml") in text
    assert reason in text


def test_a_brush_of_another_image_or_cut_off_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, "label-studio") / "project-1.json"
    good = json.loads(file.read_text())
    results = good[0]["annotations"][0]["result"]
    place = next(i for i, result in enumerate(results) if result["type"] == "brushlabels")
    where = (0, "annotations", 0, "result", place, "value", "rle")
    rle = results[place]["value"]["rle"]
    for wrong, reason in (
        ([0, 0, 0, 9, *rle[4:]], "its brush has 9 values, not 640"),
        (rle[:12], "its brush is cut off"),
        ([*rle[:8], 300], "a brush needs rle, a list of bytes"),
    ):
        file.write_text(json.dumps(changed(good, where, wrong)))
        text = failure(tmp_path, "label-studio")
        assert f"annotations[0].result[{place}]" in text
        assert reason in text


def test_a_folder_of_links_in_a_circle_is_walked_once(tmp_path: Path) -> None:
    write(tmp_path, "labelme")
    (tmp_path / "train" / "again").symlink_to(tmp_path)
    (tmp_path / "train" / "itself").symlink_to("itself")
    assert len(formats.read_folder(tmp_path).data.images) == 2


@pytest.mark.parametrize("content", ["", "[" * 100_000, "{}", "[1]", '{"shapes": 1}', "\x00"])
def test_a_json_that_means_nothing_is_no_format(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(ReconetError, match="has no labels of a known format"):
        formats.read_folder(tmp_path)


def test_photographs_are_no_masks(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for scene in SCENES:
        photo = scene._replace(image_hwc=rng.integers(0, 256, (90, 90, 3), np.uint8))
        for folder in ("images", "masks"):
            save_image(tmp_path / folder / f"{scene.name}.png", photo)
    with pytest.raises(ReconetError, match="hold more than 64 colours"):
        formats.read_folder(tmp_path)
