"""Your own images: everything that people do to them."""

import os
import subprocess
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from reconet.data import complete_recipe, open_dataset
from reconet.errors import DataError, ReconetError
from reconet.recipes import find_recipe, override
from tests.data.sets.helpers import CLASSES, LABEL, names_of, opened, write_flat
from tests.data.trees import HEIGHT, WIDTH, save_jpeg, save_list, save_png


def test_two_folders_are_enough(tmp_path: Path) -> None:
    write_flat(tmp_path, [f"p{number}" for number in range(20)])
    train, val = opened(tmp_path), opened(tmp_path, "val")
    assert (len(train), len(val)) == (18, 2)
    assert not set(names_of(train)) & set(names_of(val))
    assert train.info.classes == tuple(CLASSES)
    np.testing.assert_array_equal(train[0].label_hw, LABEL)
    assert len(opened(tmp_path, "val", val_fraction=0.5)) == 10


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


def test_a_label_map_makes_binary_masks_right_and_other_numbers_illegal(tmp_path: Path) -> None:
    write_flat(tmp_path, ["a", "b"], np.where(LABEL == 1, 255, 0).astype(np.uint8))
    mapped = {"classes": ["no", "yes"], "label_map": {"0": "no", "255": 1}}
    dataset = open_dataset("folder", "train", tmp_path, mapped)
    np.testing.assert_array_equal(dataset[0].label_hw, LABEL == 1)
    write_flat(tmp_path, ["a", "b"])
    ranges = opened(tmp_path, label_map={"0": "sky", "1-9": "road", "10-255": "ignore"})
    np.testing.assert_array_equal(np.unique(ranges[0].label_hw), [0, 2, 255])
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


def test_images_without_a_mask_are_left_out_and_told(tmp_path: Path) -> None:
    write_flat(tmp_path, ["a", "b", "c", "d"])
    (tmp_path / "masks/b.png").unlink()
    (tmp_path / "images/c.jpg").unlink()
    train: Any = opened(tmp_path, val_fraction=0.5)
    val: Any = opened(tmp_path, "val", val_fraction=0.5)
    assert sorted(names_of(train) + names_of(val)) == ["a", "d"], "only those with a mask"
    assert (train.without_mask, val.without_mask) == (("b",), ())
    save_list(tmp_path / "train.txt", ["a", "b"])
    save_list(tmp_path / "val.txt", ["d"])
    train, val = opened(tmp_path), opened(tmp_path, "val")
    assert (names_of(train), train.without_mask, train.without_image) == (["a"], ("b",), ("c",))
    assert (names_of(val), val.without_mask) == (["d"], ())


def test_where_no_image_has_a_mask_the_error_says_what_names_were_expected(tmp_path: Path) -> None:
    for name in "ab":
        save_jpeg(tmp_path / f"images/{name}.jpg")
        save_png(tmp_path / f"masks/{name}_gt.png", LABEL)
    with pytest.raises(DataError, match=r"none of 2 .* expected a, found a_gt. The option"):
        opened(tmp_path)
    assert len(opened(tmp_path, mask_suffix="_gt")) == 1


@pytest.mark.parametrize("image", ["train/images/a.jpg", "JPEGImages/a.jpg", "images/a.jpg"])
def test_a_folder_of_another_layout_names_the_command_that_recognises_it(
    tmp_path: Path, image: str
) -> None:
    save_jpeg(tmp_path / image)
    with pytest.raises(DataError, match=r"`reconet data inspect .*` recognises other layouts"):
        opened(tmp_path)


def test_folders_deeper_than_python_recurses_are_one_line(tmp_path: Path) -> None:
    write_flat(tmp_path, ["a", "b", "c"])
    here = os.getcwd()
    try:
        os.chdir(tmp_path / "images")
        for _ in range(1100):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    with pytest.raises(DataError, match="nest too deeply"):
        opened(tmp_path)
    subprocess.run(["rm", "-r", str(tmp_path / "images")], check=True)


def test_what_does_not_pair_is_named(tmp_path: Path) -> None:
    write_flat(tmp_path, ["a", "b", "c"])
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
        *(
            ({"label_map": wrong}, "data.options.label_map")
            for wrong in ({"x": 0}, {"5-3": 0}, {"0-300": 0}, {"0-5": 0, "3": 1}, {"x-y": 0})
        ),
        ({"ignore": 0}, "ignore has 0, which is also the number of 'road'"),
        ({"colours": {"road": [0, 0, 0]}}, "colours lacks grass, sky"),
        ({"colours": {"road": [0, 0, 300]}}, "data.options.colours.road"),
        (
            {"colours": {"road": [0, 0, 0], "grass": [[1, 1, 1], [0, 0, 0]], "sky": [2, 2, 2]}},
            "colours has [0, 0, 0] twice",
        ),
        (
            {"label_map": {"0": "road", "9": "grass"}, "ignore": [9]},
            "ignore says that 9 is void, and label_map that it is 'grass'",
        ),
        ({"images": "{split}/images"}, "if images or masks has {split}, both do"),
        (
            {
                "images": "{split}/i",
                "masks": "{split}/m",
                "splits": {"train": "a.txt", "val": "b.txt"},
            },
            "splits names folders, not lists",
        ),
        ({"mask": "x"}, "unknown option data.options 'mask'. Did you mean 'masks'"),
    ],
)
def test_bad_options_are_one_line(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    write_flat(tmp_path, ["a", "b"])
    with pytest.raises(ReconetError) as caught:
        opened(tmp_path, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_splits_may_have_other_names(tmp_path: Path) -> None:
    for name in ("training/a", "training/b", "late/c"):
        save_jpeg(tmp_path / f"images/{name}.jpg")
        save_png(tmp_path / f"masks/{name}.png", LABEL)
    save_list(tmp_path / "mine.txt", ["late/c"])
    splits = {"train": "training", "val": "mine.txt", "night": "late"}
    assert names_of(opened(tmp_path, splits=splits)) == ["a", "b"]
    assert names_of(opened(tmp_path, "val", splits=splits)) == ["late/c"]
    assert names_of(opened(tmp_path, "night", splits=splits)) == ["c"]
    with pytest.raises(DataError, match=r"data\.options\.splits has train, val, night"):
        opened(tmp_path, "test", splits=splits)
    with pytest.raises(ReconetError, match="Did you mean 'night'"):
        opened(tmp_path, "nigth", splits=splits)


def test_files_of_other_programs_name_the_classes(tmp_path: Path) -> None:
    write_flat(tmp_path, ["a", "b"])
    (tmp_path / "classes.txt").write_text("road\ngrass\nsky\n")
    dataset = open_dataset("folder", "train", tmp_path)
    assert dataset.info.classes == ("road", "grass", "sky")
    lines = ["# label:color_rgb:parts:actions", "void:0,0,0::", "road:9,8,7::", "sky:0,0,255::"]
    (tmp_path / "labelmap.txt").write_text("\n".join(lines))
    dataset = open_dataset("folder", "train", tmp_path)
    assert dataset.info.classes == ("road", "sky")
    assert dataset.info.palette == ((9, 8, 7), (0, 0, 255))
    rgb_hwc = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    rgb_hwc[:, 5:], rgb_hwc[:, 9:] = (9, 8, 7), (0, 0, 255)
    write_flat(tmp_path, ["a", "b"], rgb_hwc)
    assert dataset[0].label_hw[0, [0, 6, 20]].tolist() == [255, 0, 1]
    assert opened(tmp_path).info.classes == tuple(CLASSES), "options come first"
    (tmp_path / "labelmap.txt").write_text("road=9,8,7")
    for text, message in {
        "road=9,8,7": "expected lines such as road:128,64,128:: .* got 'road=9,8,7'",
        "road:9,8,700::": "blue are 0 to 255, got 'road:9,8,700::'",
        "road:9,8,7::\nsky:9,8,7::": "the colour of 'sky:9,8,7::' more than once",
        "void:0,0,0::": "names no class",
    }.items():
        (tmp_path / "labelmap.txt").write_text(text)
        with pytest.raises(DataError, match=message):
            open_dataset("folder", "train", tmp_path)


def test_a_recipe_keeps_the_classes_that_its_root_tells(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("road\ngrass\n")
    recipe = override(find_recipe("folder/frozen"), "data.root", str(tmp_path))
    assert complete_recipe(recipe).data.options["classes"] == ["road", "grass"]
    assert complete_recipe(find_recipe("scenes/tiny")) == find_recipe("scenes/tiny")


def test_a_recipe_keeps_its_root_whatever_the_working_directory_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = override(find_recipe("voc12/reconet_r50"), "data.root", "mine")
    assert complete_recipe(recipe).data.root == tmp_path / "mine"


def test_classes_are_drawn_in_colours_that_differ_or_in_own_ones(tmp_path: Path) -> None:
    write_flat(tmp_path, ["a", "b"])
    palette = opened(tmp_path).info.palette
    assert len(set(palette)) == 3
    assert (0, 0, 0) not in palette
    own = opened(tmp_path, palette={"grass": [1, 2, 3]}).info.palette
    assert own == (palette[0], (1, 2, 3), palette[2])
    alike = {name: [number] * 3 for number, name in enumerate(CLASSES)}
    assert opened(tmp_path, colours=alike).info.palette == palette
    background = opened(tmp_path, classes=["background", "a", "b"]).info.palette
    assert background == ((0, 0, 0), *palette[:2])
    with pytest.raises(ReconetError, match="palette has 'gras', which is no class"):
        opened(tmp_path, palette={"gras": [1, 2, 3]})


def test_a_turned_image_is_read_as_people_see_it_if_asked(tmp_path: Path) -> None:
    for name in "ab":
        image = Image.fromarray(np.zeros((WIDTH, HEIGHT, 3), np.uint8))
        exif = image.getexif()
        exif[0x0112] = 6
        (tmp_path / "images").mkdir(exist_ok=True)
        image.save(tmp_path / f"images/{name}.jpg", exif=exif)
        save_png(tmp_path / f"masks/{name}.png", LABEL)
    with pytest.raises(DataError, match="but its image"):
        opened(tmp_path)[0]
    assert opened(tmp_path, upright=True)[0].image_hwc.shape == (HEIGHT, WIDTH, 3)


def test_the_class_names_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(
        ReconetError, match=r'field required. For example: data.options.classes=\["road", "grass"\]'
    ):
        open_dataset("folder", "train", tmp_path)
