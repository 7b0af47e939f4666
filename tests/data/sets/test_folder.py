"""Your own images: everything that people do to them."""

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from reconet.data import open_dataset
from reconet.data.dataset import Dataset
from reconet.data.sets.folder import images_of
from reconet.errors import DataError, ReconetError
from tests.data.trees import HEIGHT, WIDTH, save_jpeg, save_list, save_png

CLASSES = ["road", "grass", "sky"]
LABEL = np.zeros((HEIGHT, WIDTH), np.uint8)
LABEL[:, 10:20], LABEL[:, 20:30], LABEL[:, 30:40] = 1, 2, 255


def write_flat(root: Path, names: list[str], label_hw: NDArray[np.uint8] = LABEL) -> None:
    for name in names:
        save_jpeg(root / f"images/{name}.jpg")
        save_png(root / f"masks/{name}.png", label_hw)


def opened(root: Path, split: str = "train", **options: Any) -> Dataset:
    return open_dataset("folder", split, root, {"classes": CLASSES} | options)


def names_of(dataset: Dataset) -> list[str]:
    return [dataset.name(index) for index in range(len(dataset))]


def test_two_folders_are_enough(tmp_path: Path) -> None:
    write_flat(tmp_path, [f"p{number}" for number in range(20)])
    train, val = opened(tmp_path), opened(tmp_path, "val")
    assert (len(train), len(val)) == (18, 2)
    assert not set(names_of(train)) & set(names_of(val))
    assert train.info.classes == tuple(CLASSES)
    np.testing.assert_array_equal(train[0].label_hw, LABEL)
    assert len(opened(tmp_path, "val", val_fraction=0.5)) == 10


@given(
    names=st.lists(st.text(min_size=1), min_size=2, max_size=30, unique=True),
    fraction=st.floats(0.01, 0.99),
)
def test_a_fraction_splits_into_two_parts_of_which_none_is_empty(
    names: list[str], fraction: float
) -> None:
    train, val = (images_of(split, names, fraction) for split in ("train", "val"))
    assert train
    assert val
    assert sorted(train + val) == sorted(names)
    again = images_of("val", names[::-1], fraction)
    assert sorted(again) == sorted(val), "the order of the images must not matter"


def test_lists_choose_the_images(tmp_path: Path) -> None:
    write_flat(tmp_path, ["a b", "größe", "c", "deep/d"])
    save_list(tmp_path / "train.txt", ["a b.jpg", "deep/d"])
    save_list(tmp_path / "val.txt", ["größe"])
    assert names_of(opened(tmp_path)) == ["a b", "deep/d"]
    assert names_of(opened(tmp_path, "val")) == ["größe"]
    with pytest.raises(
        DataError, match=r"no images for the split test: .* has lists for train, val"
    ):
        opened(tmp_path, "test")
    save_list(tmp_path / "val.txt", ["c", "nobody"])
    with pytest.raises(DataError, match=r"1 of 2 images of val.txt are not in .*, such as nobody"):
        opened(tmp_path, "val")


def test_a_test_split_needs_no_masks(tmp_path: Path) -> None:
    save_jpeg(tmp_path / "images/test/x.jpg")
    assert (opened(tmp_path, "test")[0].label_hw == 255).all()
    with pytest.raises(DataError, match=r"no images for the split train: .* has the folders test"):
        opened(tmp_path)


def test_a_file_of_pairs(tmp_path: Path) -> None:
    save_jpeg(tmp_path / "in/a b.jpg")
    save_jpeg(tmp_path / "in/c.jpg")
    save_png(tmp_path / "out/1.png", LABEL)
    lines = ["in/a b.jpg\tout/1.png", "in/c.jpg out/1.png"]
    save_list(tmp_path / "train.tsv", lines)
    save_list(tmp_path / "val.tsv", lines[1:])
    by_split = opened(tmp_path, pairs="{split}.tsv")
    assert names_of(by_split) == ["in/a b", "in/c"]
    np.testing.assert_array_equal(by_split[0].label_hw, LABEL)
    assert names_of(opened(tmp_path, "val", pairs="{split}.tsv")) == ["in/c"]
    parts = [names_of(opened(tmp_path, split, pairs="train.tsv")) for split in ("train", "val")]
    assert sorted(parts[0] + parts[1]) == ["in/a b", "in/c"]
    save_list(tmp_path / "train.tsv", ["in/a b.jpg out/1.png"])
    with pytest.raises(DataError, match="takes an image and a mask, with a tab between"):
        opened(tmp_path, pairs="train.tsv")
    with pytest.raises(DataError, match=r"expected the list .*none.tsv"):
        opened(tmp_path, pairs="none.tsv")


def test_a_label_map_makes_binary_masks_right(tmp_path: Path) -> None:
    binary_hw = np.where(LABEL == 1, 255, 0).astype(np.uint8)
    write_flat(tmp_path, ["a", "b"], binary_hw)
    mapped = {"classes": ["no", "yes"], "label_map": {"0": "no", "255": 1}}
    dataset = open_dataset("folder", "train", tmp_path, mapped)
    np.testing.assert_array_equal(dataset[0].label_hw, LABEL == 1)
    plain = open_dataset("folder", "train", tmp_path, {"classes": ["no", "yes"]})
    assert set(np.unique(plain[0].label_hw)) == {0, 255}


def test_with_a_label_map_only_its_numbers_are_legal(tmp_path: Path) -> None:
    write_flat(tmp_path, ["a", "b"])
    dataset = opened(tmp_path, label_map={"0": 0, "1": "ignore"})
    with pytest.raises(DataError, match=rf"2 \({10 * HEIGHT} pixels\); legal: 0..1, 255"):
        dataset[0]


def test_other_numbers_may_mean_not_labelled(tmp_path: Path) -> None:
    shifted_hw = LABEL.copy()
    shifted_hw[:, 30:35], shifted_hw[:, 35:40] = 100, 101
    write_flat(tmp_path, ["a", "b"], shifted_hw)
    np.testing.assert_array_equal(opened(tmp_path, ignore=[100, 101])[0].label_hw, LABEL)


def test_coloured_masks_are_read_by_their_colours(tmp_path: Path) -> None:
    colours = {"road": [9, 8, 7], "grass": [0, 255, 0], "sky": [0, 0, 255], "ignore": [0, 0, 0]}
    table = np.zeros((256, 3), np.uint8)
    table[:3] = [colours[name] for name in CLASSES]
    write_flat(tmp_path, ["a", "b"], table[LABEL])
    dataset = opened(tmp_path, colours=colours)
    np.testing.assert_array_equal(dataset[0].label_hw, LABEL)
    assert dataset.info.palette[0] == (9, 8, 7)
    del colours["ignore"]
    with pytest.raises(DataError, match=rf"colour \(0, 0, 0\) in {10 * HEIGHT} pixels"):
        opened(tmp_path, colours=colours)[0]
    with pytest.raises(DataError, match=r"not a mask of class numbers.*`colours`"):
        opened(tmp_path)[0]


def test_masks_may_have_longer_names_and_other_spellings(tmp_path: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "été") for form in ("NFC", "NFD"))
    for number in range(2):
        save_jpeg(tmp_path / f"images/{composed}{number}.JPG")
        save_png(tmp_path / f"masks/{decomposed}{number}_mask.png", LABEL)
    dataset = opened(tmp_path, mask_suffix="_mask")
    np.testing.assert_array_equal(dataset[0].label_hw, LABEL)


def test_what_does_not_pair_is_named(tmp_path: Path) -> None:
    write_flat(tmp_path, ["a", "b", "c"])
    (tmp_path / "masks/b.png").unlink()
    save_list(tmp_path / "train.txt", ["a", "b"])
    with pytest.raises(DataError, match=r"1 of 2 masks are not in .*, such as b; there are a, c"):
        opened(tmp_path)
    save_png(tmp_path / "images/a.png", LABEL)
    with pytest.raises(DataError, match=r"a.jpg and a.png have the same name"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": []}, "data.options.classes"),
        ({"classes": ["a", "a"]}, "classes must be different names"),
        ({"label_map": {"0": "rod"}}, "'rod' is neither a class nor 'ignore'"),
        ({"label_map": {"0": 3}}, "3 is neither a class nor 'ignore'"),
        ({"label_map": {"x": 0}}, "data.options.label_map"),
        ({"ignore": 0}, "ignore has 0, which is also the number of 'road'"),
        ({"colours": {"road": [0, 0, 0]}}, "colours lacks grass, sky"),
        ({"colours": {"road": [0, 0, 300]}}, "data.options.colours.road"),
        ({"mask": "x"}, "unknown option data.options 'mask'. Did you mean 'masks'"),
    ],
)
def test_bad_options_are_one_line(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    write_flat(tmp_path, ["a", "b"])
    with pytest.raises(ReconetError) as caught:
        opened(tmp_path, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_class_names_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(ReconetError, match=r"data\.options\.classes: field required"):
        open_dataset("folder", "train", tmp_path)
