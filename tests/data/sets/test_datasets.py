"""The contract of every dataset in the table, on a tiny tree in its official format."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from reconet.data import DATASETS, DatasetInfo, dataset_root, evenly_spaced, open_dataset
from reconet.data.labels import IllegalLabelError
from reconet.errors import DataError, ReconetError
from reconet.types import IGNORE
from tests.data.trees import (
    HEIGHT,
    OPTIONS,
    SPLITS,
    TREES,
    WIDTH,
    expected,
    first_file,
    make_tree,
    opened,
    save_mat,
    save_png,
)

NAMES = sorted(DATASETS)
ON_DISK = sorted(name for name, kind in DATASETS.items() if kind.needs_root)
CASES = [(name, split) for name in NAMES for split in SPLITS[name]]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_known_of_a_dataset_is_complete(name: str) -> None:
    info = DATASETS[name].info
    assert info.name == name
    assert name in TREES
    assert (
        len(info.classes) == len(set(info.classes)) == len(info.palette) == len(set(info.palette))
    )
    assert all(part in info.splits for pair in info.disjoint for part in pair)
    assert {*DATASETS[name].secret_splits} <= info.splits.keys()
    assert info.layout
    assert info.licence
    assert info.source
    assert bool(DATASETS[name].converts) == (DATASETS[name].prepare is not None)
    assert {*DATASETS[name].absent_classes} <= {*info.classes}


@pytest.mark.parametrize(("name", "split"), CASES)
def test_every_split_gives_images_and_their_labels(trees: Path, name: str, split: str) -> None:
    dataset = opened(trees, name, split)
    assert dataset.split == split
    assert len(dataset) == SPLITS[name][split]
    assert len({dataset.name(index) for index in range(len(dataset))}) == len(dataset)
    legal = {*range(len(dataset.info.classes)), IGNORE}
    for index in range(len(dataset)):
        sample = dataset[index]
        assert sample.name == dataset.name(index)
        assert sample.image_hwc.shape == (HEIGHT, WIDTH, 3)
        assert sample.image_hwc.dtype == sample.label_hw.dtype == np.uint8
        assert set(np.unique(sample.label_hw).tolist()) <= legal
        if name == "scenes":
            continue
        if split in DATASETS[name].secret_splits:
            assert (sample.label_hw == IGNORE).all()
        else:
            np.testing.assert_array_equal(sample.label_hw, expected(name, sample.name))


@pytest.mark.parametrize("name", NAMES)
def test_splits_do_not_share_images(trees: Path, name: str) -> None:
    for one, other in DATASETS[name].info.disjoint:
        if {one, other} <= SPLITS[name].keys():
            first, second = opened(trees, name, one), opened(trees, name, other)
            names = {first.name(i) for i in range(len(first))}
            assert not names & {second.name(i) for i in range(len(second))}


@pytest.mark.parametrize("name", NAMES)
def test_a_dataset_can_be_sent_to_a_worker(trees: Path, name: str) -> None:
    dataset = opened(trees, name, "train")
    copy = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(copy[1].label_hw, dataset[1].label_hw)


@pytest.mark.parametrize("name", ON_DISK)
def test_a_label_outside_the_classes_is_named(tmp_path: Path, name: str) -> None:
    make_tree(name, tmp_path)
    dataset = open_dataset(name, "train", tmp_path, OPTIONS.get(name))
    path, value = first_file(dataset), 500 if name.startswith("pcontext") else 200
    wrong_hw = np.zeros((HEIGHT, WIDTH), np.uint16)
    wrong_hw[0, :7] = value
    if path.suffix == ".mat":
        save_mat(path, S=wrong_hw, LabelMap=wrong_hw)
    else:
        save_png(path, wrong_hw.astype(np.uint8))
    with pytest.raises(IllegalLabelError, match=rf"{value} \(7 pixels\).*legal: ") as caught:
        dataset[0]
    assert path.name in str(caught.value)
    assert caught.value.counts == {value: 7}
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.counts) == (str(caught.value), {value: 7})


@pytest.mark.parametrize("name", ON_DISK)
def test_a_missing_root_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="nowhere does not exist; it should hold "):
        open_dataset(name, "train", tmp_path / "nowhere", OPTIONS.get(name))


@pytest.mark.parametrize("name", ON_DISK)
def test_another_layout_is_told_what_was_expected_and_found(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root" / "here"
    (root / "holiday").mkdir(parents=True)
    with pytest.raises(DataError, match=r"expected .* found holiday\.") as caught:
        open_dataset(name, "train", root, OPTIONS.get(name))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted({*ON_DISK} - {"cityscapes"}))
def test_empty_label_folders_are_named(tmp_path: Path, name: str) -> None:
    make_tree(name, tmp_path)
    label = first_file(open_dataset(name, "train", tmp_path, OPTIONS.get(name)))
    for path in label.parent.iterdir():
        path.unlink()
    with pytest.raises(DataError, match=f"{label.parent.name}.* is empty"):
        open_dataset(name, "train", tmp_path, OPTIONS.get(name))


@pytest.mark.parametrize("name", NAMES)
def test_unknown_names_are_answered_with_those_that_exist(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        ReconetError, match=f"unknown split of {name} 'trian'. Did you mean 'train'"
    ):
        open_dataset(name, "trian", tmp_path)
    with pytest.raises(ReconetError, match=r"unknown option data.options 'colour'"):
        open_dataset(name, "train", tmp_path, {"colour": 1})


def test_an_unknown_dataset_is_answered_with_the_nearest() -> None:
    with pytest.raises(ReconetError, match=r"unknown dataset 'voc'. Did you mean 'voc12'\?"):
        open_dataset("voc", "train")


def test_the_root_comes_from_the_environment_or_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECONET_DATA", raising=False)
    with pytest.raises(ReconetError, match=r"where is camvid.*data.root.*--root.*RECONET_DATA"):
        open_dataset("camvid", "val")
    make_tree("camvid", tmp_path / "camvid")
    monkeypatch.setenv("RECONET_DATA", str(tmp_path))
    assert len(open_dataset("camvid", "val")) == 2
    assert dataset_root("pcontext59") == dataset_root("pcontext")


def test_importing_the_datasets_imports_nothing_heavy() -> None:
    code = (
        "import sys, reconet.data; heavy = {'torch', 'scipy', 'pycocotools'} & sys.modules.keys(); "
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    here = str(Path(__file__).parents[3])
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": here})


def test_a_dataset_with_more_classes_than_labels_can_hold_is_refused() -> None:
    def info(count: int) -> DatasetInfo:
        names = tuple(f"class {k}" for k in range(count))
        return DatasetInfo(name="many", title="", classes=names, palette=(), splits={})

    assert len(info(254).classes) == 254
    with pytest.raises(DataError, match=r"many has 255 classes, and .* at most 254\. Join rare"):
        info(255)


def test_evenly_spaced_indices_run_from_the_first_to_the_last() -> None:
    assert evenly_spaced(100, 3) == [0, 49, 99]
    assert evenly_spaced(2, 64) == [0, 1]
    assert evenly_spaced(7, 1) == [0]
    assert evenly_spaced(0, 4) == []
