"""Each format gives the labels that were exported in it."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from reconet.data import open_dataset
from reconet.data.dataset import Dataset
from reconet.data.formats import FORMATS
from reconet.data.formats.convert import folder_options, keep, open_drawn
from reconet.data.formats.recognise import Recognised, read_folder
from reconet.data.options import read_options
from reconet.data.sets.folder_masks import FolderOptions
from reconet.types import Label
from tests.data.formats.exports import EXPORTS, Scene


def drawn_scenes() -> tuple[list[Scene], tuple[str, ...]]:
    """Return six generated scenes of one size and another, with their classes."""
    scenes = []
    classes: tuple[str, ...] = ()
    for split, count in (("train", 4), ("val", 2)):
        dataset = open_dataset("scenes", split, None, {"size": [40, 56], "train": 4, "val": 2})
        classes = dataset.info.classes
        scenes += [Scene(f"{split} {i}", split, *dataset[i][1:]) for i in range(count)]
    odd = scenes[0]
    scenes[0] = odd._replace(image_hwc=odd.image_hwc[:, :33], label_hw=odd.label_hw[:, :33])
    return scenes, classes


SCENES, CLASSES = drawn_scenes()


def exported(root: Path, name: str) -> Recognised:
    EXPORTS[name](root, SCENES, CLASSES)
    return read_folder(root)


def check_labels(splits: list[Dataset]) -> None:
    """Compare the labels by the names of their classes with those that were exported."""
    wanted = {scene.name: scene for scene in SCENES}
    seen = []
    for dataset in splits:
        for name, image_hwc, label_hw in dataset:  # type: ignore[attr-defined]
            scene = wanted[name.rpartition("/")[2]]
            assert scene.split == dataset.split
            assert np.array_equal(image_hwc, scene.image_hwc)
            assert np.array_equal(_names(label_hw, dataset.info.classes), _names(scene.label_hw))
            seen.append(scene.name)
    assert sorted(seen) == sorted(wanted)


def _names(label_hw: Label, classes: tuple[str, ...] = CLASSES) -> NDArray[np.str_]:
    table = np.array([*classes, *["?"] * (255 - len(classes)), "void"])
    return table[label_hw]


@pytest.mark.parametrize("name", EXPORTS)
def test_a_folder_is_recognised_and_gives_the_labels_that_were_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    found = exported(tmp_path / "mine", name)
    assert found.format == name
    keep(found.data, workers=0)
    options = folder_options(found.data)
    check_labels([open_dataset("folder", s, tmp_path / "mine", options) for s in ("train", "val")])


@pytest.mark.parametrize("name", [name for name in EXPORTS if FORMATS[name].drawn])
def test_labels_are_the_same_without_the_cache_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    found = exported(tmp_path / "mine", name)
    options = read_options(FolderOptions, folder_options(found.data))
    check_labels(open_drawn(found.data, options))
    assert not (tmp_path / "cache").exists()


def test_every_format_has_an_export_to_test_it_by() -> None:
    assert set(FORMATS) - set(EXPORTS) == {"black-white-masks"}
