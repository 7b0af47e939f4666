"""What is particular to one dataset: places of files, numbers of classes, mistakes in lists."""

from pathlib import Path

import numpy as np
import pytest

from reconet.data import DATASETS, open_dataset
from reconet.data.prepare import read_json
from reconet.data.sets import pcontext
from reconet.data.sets.cityscapes import read_label as read_cityscapes
from reconet.data.sets.coco import CATEGORIES, plan_coco
from reconet.data.sets.cocostuff import NUMBERS as STUFF_NUMBERS
from reconet.errors import DataError
from reconet.types import IGNORE
from tests.data.trees import (
    HEIGHT,
    TREES,
    WIDTH,
    first_file,
    make_tree,
    opened,
    save_jpeg,
    save_list,
    save_mat,
    save_png,
    write_cocostuff,
)


@pytest.mark.parametrize(
    "place", ["", "VOCdevkit", "VOCdevkit/VOC2012", "VOCdevkit/VOC2012/JPEGImages"]
)
def test_the_root_may_be_a_little_above_or_below(trees: Path, place: str) -> None:
    assert len(open_dataset("voc12", "val", trees / "voc12" / place)) == 2


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
    with pytest.raises(DataError, match=r"has 1 image of val, such as 2007_000010"):
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
    assert list(pcontext.CLASSES) == sorted(pcontext.CLASSES)
    number = dict(zip(pcontext.CLASSES, pcontext.NUMBERS, strict=True))
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


def test_cityscapes_ids_outside_the_nineteen_are_ignored(tmp_path: Path) -> None:
    save_png(tmp_path / "a.png", np.array([[0, 6, 7, 9, 29, 30, 33, 255]], np.uint8))
    assert read_cityscapes(tmp_path / "a.png").tolist() == [[255, 255, 0, 255, 255, 255, 18, 255]]


def test_the_voc_palette_is_the_official_one() -> None:
    palette = DATASETS["voc12"].info.palette
    assert palette[0] == (0, 0, 0)
    assert palette[1] == (128, 0, 0)
    assert palette[15] == (192, 128, 128)
    assert palette[20] == (0, 64, 128)


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


# Genuine samples of the datasets, where they lie beside the repository.

SAMPLES = Path(__file__).parents[4] / "shared/data"
real = pytest.mark.skipif(
    not SAMPLES.is_dir(), reason="no samples of real datasets beside the repository"
)
CASES = [
    ("voc12", "train"),
    ("voc12", "trainaug"),
    ("voc12", "val"),
    ("ade20k", "train"),
    ("ade20k", "val"),
    ("cocostuff", "train"),
    ("cocostuff", "val"),
    ("camvid", "train"),
    ("camvid", "val"),
]


@real
@pytest.mark.parametrize(("name", "split"), CASES)
def test_real_samples_are_read(name: str, split: str) -> None:
    dataset = open_dataset(name, split, SAMPLES / name)
    assert 0 < len(dataset) <= (dataset.info.splits[split] or 0)  # a part, or all of it
    pixels_n = np.zeros(256, np.int64)
    for index in range(0, len(dataset), max(1, len(dataset) // 12)):
        pixels_n += np.bincount(dataset[index].label_hw.ravel(), minlength=256)
    assert pixels_n[: len(dataset.info.classes)].sum() > pixels_n[IGNORE] > 0
    assert not pixels_n[len(dataset.info.classes) : IGNORE].any()


@real
def test_the_official_aug_labels_are_the_official_labels() -> None:
    train, aug = (open_dataset("voc12", s, SAMPLES / "voc12") for s in ("train", "trainaug"))
    place = {aug.name(index): index for index in range(len(aug))}
    for index in range(0, len(train), 25):
        sample = train[index]
        np.testing.assert_array_equal(sample.label_hw, aug[place[sample.name]].label_hw)


@real
def test_coco_categories_are_the_classes_of_voc() -> None:
    (categories,) = read_json(SAMPLES / "coco/annotations/instances_val2017.json", "categories")
    name = {category["id"]: category["name"] for category in categories}
    other = {
        "aeroplane": "airplane",
        "diningtable": "dining table",
        "motorbike": "motorcycle",
        "pottedplant": "potted plant",
        "sofa": "couch",
        "tvmonitor": "tv",
    }
    classes = DATASETS["coco"].info.classes[1:]
    assert [name[number] for number in CATEGORIES[1:]] == [other.get(c, c) for c in classes]


@real
def test_coco_samples_can_be_drawn() -> None:
    plan = plan_coco(SAMPLES / "coco")
    assert len(plan.jobs) == 82
