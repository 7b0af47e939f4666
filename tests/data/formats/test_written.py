"""What is written in each format gives the same labels when it is read."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reconet.data.classes import distinct_colours
from reconet.data.formats import (
    WRITTEN,
    PredictedImage,
    Recognised,
    folder_options,
    open_drawn,
    read_folder,
    write_files,
)
from reconet.data.images.write import write_mask
from reconet.data.options import read_options
from reconet.data.sets.folder_masks import FolderOptions
from reconet.types import IGNORE, Label
from tests.data.formats.test_formats import SCENES

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
        write_mask(mask, label_hw, ())
        images.append(PredictedImage(place, path, place.removesuffix(".png"), mask))
    palette = distinct_colours(len(classes))
    written = write_files(name, WRITTEN[name], root, images, classes, palette)
    assert written.notes == ()
    return written.folder


def accept(folder: Path) -> None:
    """Turn predictions into annotations, as a person does who submits them in Label Studio."""
    path = folder / "tasks.json"
    tasks = json.loads(path.read_text())
    for task in tasks:
        task["annotations"] = task.pop("predictions")
    path.write_text(json.dumps(tasks))


def read(folder: Path) -> tuple[Recognised, dict[str, tuple[Label, tuple[str, ...]]]]:
    """Read a folder. Return the labels of each image, and their classes."""
    found = read_folder(folder)
    splits = open_drawn(found.data, read_options(FolderOptions, folder_options(found.data)))
    return found, {
        Path(name).name: (label_hw, dataset.info.classes)
        for dataset in splits
        for name, _, label_hw in dataset  # type: ignore[attr-defined]
    }


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("name", WRITTEN)
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
