"""What `predict --as` writes is read back as it was, and replaces nothing that a person made."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reconet.data import formats
from reconet.errors import OutputError
from reconet.types import IGNORE, Label
from tests.data.formats.exports import COLOURS, save_mask
from tests.data.formats.test_formats import SCENES, opened

READERS = {"labelstudio": "label-studio"}  # names of formats that differ when they are read
CLASSES = ('a "b" & <c>', "no: yes # 1", "côté", "sea", "#804080")


def predicted(background: bool) -> dict[str, Label]:
    """Return labels of five classes, from drawn scenes. One image has a single class."""
    labels = {
        f"sub {number}/scene{number}.png": np.where(
            scene.label_hw == IGNORE, 0, scene.label_hw % len(CLASSES)
        ).astype(np.uint8)
        for number, scene in enumerate(SCENES)
    }
    labels["plain.png"] = np.full((9, 14), 0 if background else 3, np.uint8)
    return labels


def write(root: Path, name: str, labels: dict[str, Label], classes: tuple[str, ...]) -> Path:
    """Write images, masks and pre-labels. Return the folder of the format, with the images."""
    images = []
    for number, (place, label_hw) in enumerate(labels.items()):
        path, mask = root / name / "images" / place, root / "masks" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((*label_hw.shape, 3), np.uint8)).save(path)
        save_mask(mask, label_hw)
        images.append(formats.PredictedImage(place, path, place.removesuffix(".png"), mask))
    written = formats.write_files(name, formats.WRITTEN[name], root, images, classes, COLOURS)
    assert written.notes == ()
    return written.folder


def accept(folder: Path) -> None:
    """Turn predictions into annotations, as a person does who submits them in Label Studio."""
    path = folder / "tasks.json"
    tasks = json.loads(path.read_text())
    for task in tasks:
        task["annotations"] = task.pop("predictions")
    path.write_text(json.dumps(tasks))


def read(folder: Path) -> tuple[formats.Recognised, dict[str, tuple[Label, tuple[str, ...]]]]:
    """Read a folder. Return the labels of each image, and their classes."""
    found = formats.read_folder(folder)
    return found, {
        Path(name).name: (label_hw, dataset.info.classes)
        for dataset in opened(found)
        for name, _, label_hw in dataset  # type: ignore[attr-defined]
    }


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("name", formats.WRITTEN)
def test_pre_labels_are_recognised_and_give_the_same_labels(
    tmp_path: Path, name: str, background: bool
) -> None:
    classes = ("background", *CLASSES[1:]) if background else CLASSES
    labels = predicted(background)
    folder = write(tmp_path, name, labels, classes)
    if name == "labelstudio":
        accept(folder)
        if background:  # Label Studio does not tell "nothing there" from "not looked at"
            del labels["plain.png"]
    found, back = read(folder)
    assert found.format == READERS.get(name, name)
    assert set(back) == {Path(place).stem for place in labels}
    for place, label_hw in labels.items():
        got_hw, names = back[Path(place).stem]
        assert np.array_equal(np.array(names)[got_hw], np.array(classes)[label_hw])


def test_background_is_not_written(tmp_path: Path) -> None:
    labels = {"a.png": np.zeros((4, 6), np.uint8)}
    labels["a.png"][1:3, 1:3] = 1
    folder = write(tmp_path, "coco", labels, ("Background", "cell"))
    content = json.loads((folder / "annotations.json").read_text())
    assert content["categories"] == [{"id": 1, "name": "cell"}]
    (annotation,) = content["annotations"]
    assert (annotation["area"], annotation["bbox"]) == (4, [1, 1, 2, 2])
    assert annotation["segmentation"] == [[1, 3, 3, 3, 3, 1, 1, 1]]


def test_a_class_0_with_another_name_is_written(tmp_path: Path) -> None:
    labels = {"a.png": np.zeros((4, 6), np.uint8)}
    folder = write(tmp_path, "yolo", labels, ("road", "background"))
    assert (folder / "labels" / "a.txt").read_text().startswith("0 ")
    assert '0: "road"' in (folder / "data.yaml").read_text()


def test_a_json_of_labelme_names_its_image_by_a_path_that_leads_there(tmp_path: Path) -> None:
    labels = {"sub/a.png": np.ones((4, 6), np.uint8)}
    folder = write(tmp_path, "labelme", labels, ("background", "cell"))
    path = folder / "sub" / "a.json"
    there = path.parent / json.loads(path.read_text())["imagePath"]
    assert there.resolve() == (folder / "images/sub/a.png").resolve()


def write_small(
    out: Path, *names: str, format_name: str = "labelme", label: int = 1
) -> formats.WrittenLabels:
    """Write the labels of small images."""
    mask = out / f"mask{label}.png"
    save_mask(mask, np.full((3, 4), label, np.uint8))
    images = [formats.PredictedImage(n, out / n, n.rpartition(".")[0], mask) for n in names]
    encode = formats.WRITTEN[format_name]
    return formats.write_files(format_name, encode, out, images, ("background", "cell"), COLOURS)


def test_only_a_file_that_was_not_changed_is_replaced(tmp_path: Path) -> None:
    write_small(tmp_path, "a.png", "b.png")
    path, other = tmp_path / "labelme/a.json", tmp_path / "labelme/b.json"
    path.write_text("corrected")
    before = other.read_text()
    result = write_small(tmp_path, "a.png", "b.png", label=0)
    assert (path.read_text(), result.files) == ("corrected", 1)
    assert "labelme/a.json was changed since" in result.notes[0]
    assert other.read_text() != before
    (tmp_path / "coco").mkdir()
    (tmp_path / "coco/annotations.json").write_text("{}")  # of a stranger
    assert write_small(tmp_path, "a.png", format_name="coco").files == 0
    assert (tmp_path / "coco/annotations.json").read_text() == "{}"


def test_images_that_would_share_a_file_are_named(tmp_path: Path) -> None:
    result = write_small(tmp_path, "a.png", "A.jpg", "c.png", format_name="yolo")
    assert result.files == 3
    assert "another image has" in result.notes[0]


def test_names_that_no_format_can_hold_are_left_out(tmp_path: Path) -> None:
    result = write_small(tmp_path, "a\n.png", "b\udcff.png", "c.png", format_name="cvat")
    assert [note.startswith("left out: ") for note in result.notes] == [True, True]
    assert 'name="c.png"' in (tmp_path / "cvat/annotations.xml").read_text()


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/labelme").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="no ordinary folder"):
        write_small(tmp_path / "out", "a.png")
    (tmp_path / "out/yolo").mkdir()
    (tmp_path / "out/yolo/labels").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="leads out of"):
        write_small(tmp_path / "out", "a.png", format_name="yolo")
    assert not list((tmp_path / "elsewhere").iterdir())
