"""`reconet predict --as`: pre-labels of all images, new ones and those that were done before."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reconet import Predictor
from reconet.data.dataset import read_options
from reconet.data.formats import WRITTEN, folder_options, open_drawn, read_folder
from reconet.data.images.read import ORIENTATION, read_mask, read_upright
from reconet.data.sets.folder_masks import FolderOptions
from tests.inference.helpers import ask_predict, save_image


@pytest.mark.parametrize("name", WRITTEN)
def test_predictions_on_turned_photographs_come_back_as_their_labels(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path, predictor: Predictor, name: str
) -> None:
    images, out = tmp_path / "images", tmp_path / "out"
    for turn in range(1, 9):
        exif = Image.Exif()
        exif[ORIENTATION] = turn
        for path, width in ((images / f"{turn}.jpg", 45), (images / f"square {turn}.jpg", 30)):
            save_image(path, turn, 30, width)
            Image.open(path).save(path, exif=exif)
    assert ask_predict(capsys, run, images, "--out", out, "--as", name, "--json")[0] == 0
    images.rename(out / name / "images")
    if name == "labelstudio":  # a person submits the predictions
        tasks = out / name / "tasks.json"
        tasks.write_text(tasks.read_text().replace('"predictions"', '"annotations"'))
    own = read_folder(out / name).data
    assert any("14 photographs have an EXIF orientation" in note for note in own.notes)
    seen = 0
    for dataset in open_drawn(own, read_options(FolderOptions, folder_options(own))):
        for place, image_hwc, label_hw in dataset:  # type: ignore[attr-defined]
            assert np.array_equal(image_hwc, read_upright(out / name / f"{place}.jpg").image_hwc)
            wanted_hw = read_mask(out / f"{Path(place).name}.png")
            names = np.array(dataset.info.classes)[label_hw]
            assert np.array_equal(names, np.array(predictor.classes)[wanted_hw])
            seen += 1
    assert seen == 16


def test_a_second_format_needs_no_prediction_and_corrected_labels_are_kept(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "in" / "a.png", 1)
    (tmp_path / "in" / "broken.png").write_text("hello")
    out = tmp_path / "out"
    asked = (run, tmp_path / "in", "--out", out, "--as")
    for name, file in (("yolo", "labels/a.txt"), ("labelme", "a.json"), ("yolo", "labels/a.txt")):
        code, result, _ = ask_predict(capsys, *asked, name, "--json")
        assert code == 1
        assert (out / name / file).is_file()
    assert (result["done"], result["skipped"], result["failed"]) == (0, 1, 1)
    assert result["prelabels"]["folder"] == str(out / "yolo")
    image = json.loads((out / "labelme/a.json").read_text())["imagePath"]
    assert (out / "labelme" / image).resolve() == (tmp_path / "in" / "a.png").resolve()
    (out / "labelme/a.json").write_text("corrected")
    _, result, err = ask_predict(capsys, *asked, "labelme")
    assert "labelme: " in result["text"]
    assert "kept as it is" in err
    assert (out / "labelme/a.json").read_text() == "corrected"
    code, _, err = ask_predict(capsys, *asked, "coc")
    assert (code, err.count("\n")) == (2, 1)
    assert "Did you mean 'coco'?" in err


def test_outlines_are_simplified_where_a_format_has_them(
    capsys: pytest.CaptureFixture[str], run: Path, tmp_path: Path
) -> None:
    save_image(tmp_path / "in" / "a.png", 1)
    asked, file = (run, tmp_path / "in", "--out", tmp_path / "out"), tmp_path / "out/labelme/a.json"
    points = []
    for tolerance in ((), ("--tolerance", 1)):
        assert ask_predict(capsys, *asked, "--as", "labelme", *tolerance)[0] == 0
        points.append(sum(len(shape["points"]) for shape in json.loads(file.read_text())["shapes"]))
    assert 0 < points[1] < points[0]
    for words, says in (
        (("--as", "cvat", "--tolerance", 1), "cvat is written as masks"),
        (("--tolerance", 1), "name a format too"),
    ):
        code, _, err = ask_predict(capsys, *asked, *words)
        assert code == 2
        assert says in err
