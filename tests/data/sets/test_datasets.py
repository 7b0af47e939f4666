"""The contract of every dataset in the table, on a tiny tree in its official format."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from reconet.data import DATASETS, dataset_root, open_dataset
from reconet.data.dataset import Dataset, FileDataset, spread_indices
from reconet.data.labels import IllegalLabelError
from reconet.data.names import PASCAL_CONTEXT
from reconet.data.sets.cityscapes import read_label as read_cityscapes
from reconet.data.sets.cocostuff import NUMBERS as STUFF_NUMBERS
from reconet.data.sets.pcontext import NUMBERS as CONTEXT_NUMBERS
from reconet.errors import DataError, ReconetError
from reconet.types import IGNORE
from tests.data.trees import (
    HEIGHT,
    OPTIONS,
    SPLITS,
    TREES,
    WIDTH,
    expected,
    make_tree,
    save_jpeg,
    save_list,
    save_mat,
    save_png,
    write_cocostuff,
)

NAMES = sorted(DATASETS)
ON_DISK = sorted(name for name, kind in DATASETS.items() if kind.needs_root)
CASES = [(name, split) for name in NAMES for split in SPLITS[name]]


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("trees")
    for name in TREES:
        make_tree(name, root / name)
    return root


def opened(trees: Path, name: str, split: str) -> Dataset:
    return open_dataset(name, split, trees / name, OPTIONS.get(name))


def first_file(dataset: Dataset) -> Path:
    assert isinstance(dataset, FileDataset)
    assert dataset.pairs[0].label is not None
    return dataset.pairs[0].label


@pytest.mark.parametrize("name", NAMES)
def test_what_is_known_of_a_dataset_is_complete(name: str) -> None:
    info = DATASETS[name].info
    assert info.name == name
    assert name in TREES
    assert (
        len(info.classes) == len(set(info.classes)) == len(info.palette) == len(set(info.palette))
    )
    assert all(part in info.splits for pair in info.disjoint for part in pair)
    assert info.layout
    assert info.licence
    assert info.source


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
        if split == "test" and name in ("voc12", "ade20k", "cityscapes"):  # labels are secret
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


@pytest.mark.parametrize("name", NAMES)
def test_an_index_outside_is_an_index_error(trees: Path, name: str) -> None:
    dataset = opened(trees, name, "train")
    with pytest.raises(IndexError):
        dataset[len(dataset)]


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
    with pytest.raises(DataError, match=r"expected .* found holiday\.$") as caught:
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


def test_cityscapes_without_its_labels_says_which_folder_is_expected(tmp_path: Path) -> None:
    make_tree("cityscapes", tmp_path)
    (tmp_path / "gtFine").rename(tmp_path / "gtCoarse")
    with pytest.raises(DataError, match=r"expected the folder .*gtFine.train; .* gtCoarse"):
        open_dataset("cityscapes", "train", tmp_path)
    assert len(open_dataset("cityscapes", "test", tmp_path)) == 1


@pytest.mark.parametrize("name", NAMES)
def test_unknown_names_are_answered_with_those_that_exist(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        ReconetError, match=f"unknown split of {name} 'trian'. Did you mean 'train'"
    ):
        open_dataset(name, "trian", tmp_path)
    with pytest.raises(ReconetError, match=r"unknown option data.options 'colour'"):
        open_dataset(name, "train", tmp_path, {"colour": 1})


def test_indices_are_spread_evenly_from_the_first_to_the_last() -> None:
    assert spread_indices(100, 3) == [0, 49, 99]
    assert spread_indices(2, 64) == [0, 1]
    assert spread_indices(7, 1) == [0]
    assert spread_indices(0, 4) == []


def test_an_unknown_dataset_is_answered_with_the_nearest() -> None:
    with pytest.raises(ReconetError, match=r"unknown dataset 'voc'. Did you mean 'voc12'\?"):
        open_dataset("voc", "train")


def test_the_root_comes_from_the_environment_or_is_asked_for(
    trees: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECONET_DATA", raising=False)
    with pytest.raises(ReconetError, match=r"where is camvid.*--root or data.root.*RECONET_DATA"):
        open_dataset("camvid", "val")
    monkeypatch.setenv("RECONET_DATA", str(trees))
    assert len(open_dataset("camvid", "val")) == 2
    assert dataset_root("pcontext59") == dataset_root("pcontext")


@pytest.mark.parametrize(
    "place", ["", "VOCdevkit", "VOCdevkit/VOC2012", "VOCdevkit/VOC2012/JPEGImages"]
)
def test_the_root_may_be_a_little_above_or_below(trees: Path, place: str) -> None:
    assert len(open_dataset("voc12", "val", trees / "voc12" / place)) == 2


def test_a_relative_root_works(trees: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trees / "camvid" / "train")
    assert len(open_dataset("camvid", "val", "..")) == 2
    assert len(open_dataset("camvid", "val", ".")) == 2


def test_a_label_of_another_size_is_named(tmp_path: Path) -> None:
    make_tree("camvid", tmp_path)
    save_png(tmp_path / "valannot/0001TP_val0.png", np.zeros((3, 4), np.uint8))
    with pytest.raises(DataError, match=r"valannot.0001TP_val0.png is 4 x 3 .*56 x 40"):
        open_dataset("camvid", "val", tmp_path)[0]


def test_a_file_missing_from_the_tree_is_named_when_it_is_read(tmp_path: Path) -> None:
    make_tree("voc12", tmp_path)
    dataset = open_dataset("voc12", "train", tmp_path)
    first_file(dataset).unlink()
    with pytest.raises(DataError, match=r"cannot read .*2007_000000.png: no such file"):
        dataset[0]


def test_a_list_in_which_val_leaks_into_trainaug_is_refused(tmp_path: Path) -> None:
    make_tree("voc12", tmp_path)
    path = tmp_path / "VOCdevkit/VOC2012/ImageSets/Segmentation/trainaug.txt"
    save_list(path, ["2007_000000", "2007_000010"])
    with pytest.raises(DataError, match=r"has 1 images of val, such as 2007_000010"):
        open_dataset("voc12", "trainaug", tmp_path)


def test_lists_of_paths_empty_lists_and_repetitions(tmp_path: Path) -> None:
    make_tree("voc12", tmp_path)
    path = tmp_path / "VOCdevkit/VOC2012/ImageSets/Segmentation/val.txt"
    save_list(path, ["/JPEGImages/2007_000010.jpg /SegmentationClassAug/2007_000010.png"])
    assert open_dataset("voc12", "val", tmp_path)[0].name == "2007_000010"
    for lines, message in ((["", " "], "is empty"), (["a", "b", "a"], "'a' more than once")):
        save_list(path, lines)
        with pytest.raises(DataError, match=f"val.txt .*{message}"):
            open_dataset("voc12", "val", tmp_path)


def test_trainaug_without_preparation_names_the_command(tmp_path: Path) -> None:
    TREES["voc12"](tmp_path)
    with pytest.raises(DataError, match=r"trainaug.txt.*Run `reconet data prepare voc12`"):
        open_dataset("voc12", "trainaug", tmp_path)


def test_pascal_context_classes_are_alphabetical_with_the_right_numbers() -> None:
    assert list(PASCAL_CONTEXT) == sorted(PASCAL_CONTEXT)
    number = dict(zip(PASCAL_CONTEXT, CONTEXT_NUMBERS, strict=True))
    facts = {"aeroplane": 2, "bag": 9, "bedclothes": 19, "cloth": 80, "table": 397, "wood": 458}
    assert facts.items() <= number.items()


def test_coco_stuff_numbers_close_ranks() -> None:
    classes = DATASETS["cocostuff"].info.classes
    number = dict(zip(classes, STUFF_NUMBERS, strict=True))
    facts = {"person": 1, "stop sign": 13, "toothbrush": 90, "banner": 92, "wood": 182}
    assert facts.items() <= number.items()
    assert classes.index("banner") == 80


def test_coco_stuff_164k_is_read_from_png(tmp_path: Path) -> None:
    number_hw = np.full((HEIGHT, WIDTH), 255, np.uint8)
    number_hw[:, 0], number_hw[:, 1], number_hw[:, 2] = 0, 91, 181  # person, banner, wood
    for split in ("train2017", "val2017"):
        save_jpeg(tmp_path / f"images/{split}/000000000001.jpg")
        save_png(tmp_path / f"annotations/{split}/000000000001.png", number_hw)
    dataset = open_dataset("cocostuff", "val", tmp_path)
    assert dataset.info.splits == {"train": 118287, "val": 5000}
    assert dataset[0].label_hw[0, :4].tolist() == [0, 80, 170, 255]
    with pytest.raises(DataError, match="164k, with the splits train and val, not test"):
        open_dataset("cocostuff", "test", tmp_path)


def test_coco_stuff_v1_0_is_refused(tmp_path: Path) -> None:
    write_cocostuff(tmp_path)
    for path in (tmp_path / "annotations").iterdir():
        names = np.array(["name"] * 172, object)
        save_mat(path, S=np.ones((HEIGHT, WIDTH), np.uint8), names=names)
    with pytest.raises(DataError, match=r"COCO-Stuff v1.0.*get v1.1"):
        open_dataset("cocostuff", "train", tmp_path)


def test_a_number_that_coco_stuff_never_drew_is_illegal(tmp_path: Path) -> None:
    write_cocostuff(tmp_path)
    dataset = open_dataset("cocostuff", "train", tmp_path)
    save_mat(first_file(dataset), S=np.full((HEIGHT, WIDTH), 12.0))
    with pytest.raises(IllegalLabelError, match="12"):
        dataset[0]


def test_cityscapes_ids_outside_the_nineteen_are_ignored(tmp_path: Path) -> None:
    save_png(tmp_path / "a.png", np.array([[0, 6, 7, 9, 29, 30, 33, 255]], np.uint8))
    assert read_cityscapes(tmp_path / "a.png").tolist() == [[255, 255, 0, 255, 255, 255, 18, 255]]


def test_the_voc_palette_is_the_official_one() -> None:
    palette = DATASETS["voc12"].info.palette
    assert palette[0] == (0, 0, 0)
    assert palette[1] == (128, 0, 0)
    assert palette[15] == (192, 128, 128)
    assert palette[20] == (0, 64, 128)


def test_a_greyscale_jpeg_is_read_as_rgb(trees: Path) -> None:
    image_hwc = opened(trees, "ade20k", "train")[1].image_hwc
    assert (image_hwc[..., 0] == image_hwc[..., 2]).all()
    assert image_hwc.std() > 0


def test_siftflow_leaves_out_what_is_not_annotated(trees: Path) -> None:
    dataset = opened(trees, "siftflow", "train")
    assert "highway_bost181" not in [dataset.name(i) for i in range(len(dataset))]


def test_scenes_do_not_depend_on_their_number_and_train_never_meets_val() -> None:
    few = open_dataset("scenes", "train", options={"train": 2, "size": 32})
    many = open_dataset("scenes", "train", options={"train": 500_000, "size": "32x32"})
    val = open_dataset("scenes", "val", options={"size": 32})
    np.testing.assert_array_equal(few[1].image_hwc, many[1].image_hwc)
    images = {many[i].image_hwc.tobytes() for i in range(8)}
    assert images.isdisjoint(val[i].image_hwc.tobytes() for i in range(8))
    other = open_dataset("scenes", "train", options={"size": 32, "seed": 1})
    assert not np.array_equal(other[1].image_hwc, few[1].image_hwc)
    assert many.info.splits["train"] == len(many)


@pytest.mark.parametrize("options", [{"train": 0}, {"size": "wide"}, {"seed": -1}])
def test_bad_options_of_scenes_are_one_line(options: dict[str, object]) -> None:
    with pytest.raises(ReconetError, match=rf"data\.options\.{next(iter(options))}") as caught:
        open_dataset("scenes", "train", options=options)
    assert "\n" not in str(caught.value)


def test_importing_the_datasets_imports_nothing_heavy() -> None:
    code = (
        "import sys, reconet.data; heavy = {'torch', 'scipy', 'pycocotools'} & sys.modules.keys(); "
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    here = str(Path(__file__).parents[3])
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": here})
