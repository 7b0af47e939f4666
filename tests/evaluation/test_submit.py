"""Submissions read back equal the predictions, under the names that the servers want."""

from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from reconet.data import DATASETS, open_dataset
from reconet.data.classes import colour_map
from reconet.data.images.read import read_mask
from reconet.data.sets.cityscapes import read_label as read_cityscapes
from reconet.errors import OutputError, RecipeError
from reconet.evaluation.submit import open_submission
from tests.data.trees import make_tree, stripes


def prediction(dataset: str, name: str) -> NDArray[np.uint8]:
    """Make a prediction that has every class."""
    classes = len(DATASETS[dataset].info.classes)
    label_hw = stripes(name, classes, void=False)
    label_hw.flat[:classes] = range(classes)
    return label_hw


def submitted(dataset: str, root: Path) -> tuple[Path, list[str]]:
    make_tree(dataset, root / "data")
    test = open_dataset(dataset, "test", root / "data")
    names = [test.name(index) for index in range(len(test))]
    submission = open_submission(dataset, "test", root / "out")
    for name in names:
        submission.put(name, prediction(dataset, name))
    return submission.finish(names), names


def files(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def test_voc_gets_indexed_images_with_its_colours(tmp_path: Path) -> None:
    sent, names = submitted("voc12", tmp_path)
    folder = "results/VOC2012/Segmentation/comp6_test_cls"
    assert sent == tmp_path / "out" / folder
    assert files(tmp_path / "out") == [f"{folder}/{name}.png" for name in names]
    for name in names:
        assert np.array_equal(read_mask(sent / f"{name}.png"), prediction("voc12", name))
        with Image.open(sent / f"{name}.png") as image:
            assert image.mode == "P"
            colours = np.array(image.getpalette()).reshape(-1, 3)
        assert [tuple(colour) for colour in colours.tolist()] == list(colour_map(256))
        assert tuple(colours[15]) == (192, 128, 128)  # a person


def test_ade20k_gets_an_archive_of_classes_from_1_to_150(tmp_path: Path) -> None:
    sent, names = submitted("ade20k", tmp_path)
    assert files(tmp_path / "out") == ["ade20k_test.zip"]
    with ZipFile(sent) as archive:
        assert archive.namelist() == [f"{name}.png" for name in names]
        for name in names:
            with archive.open(f"{name}.png") as file, Image.open(file) as image:
                assert image.mode == "L"
                label_hw = np.array(image)
            assert (label_hw.min(), label_hw.max()) == (1, 150)
            assert np.array_equal(label_hw - 1, prediction("ade20k", name))


def test_cityscapes_gets_label_ids(tmp_path: Path) -> None:
    sent, names = submitted("cityscapes", tmp_path)
    assert files(sent) == [f"{name}_pred_labelIds.png" for name in names]
    for name in names:
        path = sent / f"{name}_pred_labelIds.png"
        assert np.array_equal(read_cityscapes(path), prediction("cityscapes", name))
        assert set(np.unique(read_mask(path))) <= {7, 8, *range(11, 34)}


def test_other_datasets_have_no_server(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="camvid has no test server that --submit knows; ade20k"):
        open_submission("camvid", "test", tmp_path)


def test_a_place_that_cannot_be_is_told_before_the_first_image(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"--submit names a folder; .*file is a file"):
        open_submission("voc12", "test", tmp_path / "file")
