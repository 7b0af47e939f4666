"""From a folder of somebody's own images to a recipe."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reconet.cache import clear_cache, list_cache
from reconet.data import open_dataset
from reconet.data.dataset import read_options
from reconet.data.formats import folder_options, keep, labels_folder, read_folder
from reconet.data.formats.masks import UNNAMED
from reconet.data.sets.folder_masks import FolderOptions
from reconet.engine import inspect_folder
from reconet.engine.own_data import without_classes
from reconet.errors import AbsentError, DataError, RecipeError
from tests.data.formats.exports import EXPORTS, Scene, save_image, save_mask
from tests.factories import smooth_image
from tests.pretend_gpu import pretend_gpu

CLASSES = ("road", "roof", "tree")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def scenes(count: int = 6, split: str = "") -> list[Scene]:
    """Draw images of three stripes, of which the last is void in part."""
    label_hw = np.zeros((64, 80), np.uint8)
    label_hw[20:40], label_hw[40:] = 1, 2
    label_hw[60:, 70:] = 255
    names = [f"{i}" for i in range(count)]
    splits = [split or ("val" if i % 3 == 2 else "train") for i in range(count)]
    return [
        Scene(name, where, smooth_image(i, 64, 80), label_hw)
        for i, (name, where) in enumerate(zip(names, splits, strict=True))
    ]


def exported(root: Path, form: str, count: int = 6, split: str = "") -> Path:
    EXPORTS[form](root, scenes(count, split), CLASSES)
    return root


def test_a_folder_becomes_a_recipe_without_writing_anything(tmp_path: Path, cache: Path) -> None:
    folder = exported(tmp_path / "mine", "coco")
    found = inspect_folder(folder, device="cpu", workers=0)
    assert found.recipe.data.name == "folder"
    assert found.recipe.data.options["classes"] == list(CLASSES)  # background has no pixel
    assert found.notes == ("left out: 1 class without pixels (background)",)
    assert (found.facts.images, found.facts.val_images) == (4, 2)
    assert (found.facts.height, found.facts.width) == (64, 80)
    assert found.report.ok
    assert not cache.exists()


@pytest.mark.parametrize("bf16", [True, False])
def test_a_gpu_that_only_emulates_bf16_trains_in_fp32(tmp_path: Path, bf16: bool) -> None:
    folder = exported(tmp_path / "mine", "coco")
    with pretend_gpu(bf16=bf16):
        found = inspect_folder(folder, workers=0)
    assert found.recipe.train.precision == ("bf16" if bf16 else "fp32")


def test_kept_masks_give_the_same_recipe_and_can_be_opened(tmp_path: Path) -> None:
    folder = exported(tmp_path / "mine", "labelme")
    dry = inspect_folder(folder, device="cpu", workers=0)
    kept = inspect_folder(folder, device="cpu", workers=0, keep_masks=True)
    assert kept.recipe.data == dry.recipe.data
    assert kept.report.splits == dry.report.splits
    data = kept.recipe.data
    assert len(open_dataset("folder", "train", data.root, data.options)) == 4


def test_settings_of_the_user_win_and_the_table_says_so(tmp_path: Path) -> None:
    folder = exported(tmp_path / "mine", "yolo")
    found = inspect_folder(
        folder, ["train.steps=7", "data.options.title=Roofs"], device="cpu", workers=0
    )
    assert found.recipe.train.steps == 7
    assert found.recipe.data.title == "Roofs"
    rows = {row.setting: row for row in found.rows}
    assert rows["train.steps"][1:] == ("7", "you set it")
    assert rows["train.batch"].reason != "you set it"


def test_classes_that_the_user_named_have_names(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    for split in ("train", "val"):
        for kind in ("images", "masks"):
            (folder / kind / split).mkdir(parents=True)
        for index in range(3):
            mask_hw = np.zeros((64, 80), np.uint8)
            mask_hw[:, 9 * index + 9 :] = 255
            Image.fromarray(mask_hw ^ index).save(folder / "images" / split / f"{split}{index}.png")
            Image.fromarray(mask_hw).save(folder / "masks" / split / f"{split}{index}.png")
    settings = ['data.options.classes=["sky","roof"]']
    for given, notes in (([], (UNNAMED,)), (settings, ())):
        assert inspect_folder(folder, given, device="cpu", workers=0).notes == notes


def test_without_weights_a_small_network_is_trained_from_nothing(tmp_path: Path) -> None:
    folder = exported(tmp_path / "mine", "index-masks")
    found = inspect_folder(folder, ["model.weights=null"], device="cpu", workers=0)
    assert found.recipe.model.weights is None
    assert not found.recipe.model.frozen


def test_images_without_a_split_are_split_by_a_hash_of_their_names(tmp_path: Path) -> None:
    folder = exported(tmp_path / "mine", "labelme", count=20, split="pool")
    found = inspect_folder(folder, device="cpu", workers=0, keep_masks=True)
    assert (found.facts.images, found.facts.val_images) == (18, 2)
    more = inspect_folder(folder, ["data.options.val_fraction=0.25"], device="cpu", workers=0)
    assert (more.facts.images, more.facts.val_images) == (15, 5)


def test_a_problem_is_one_line_with_the_command_that_shows_more(tmp_path: Path) -> None:
    folder = exported(tmp_path / "mine", "index-masks")
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(folder / "masks/train/0.png")
    found = inspect_folder(folder, device="cpu", workers=0)
    with pytest.raises(DataError) as caught:
        found.check()
    text = str(caught.value)
    assert "1 problem in" in text
    assert f"`reconet data inspect {folder}` shows more." in text
    assert "\n" not in text


def test_images_without_a_mask_do_not_stop_a_training(tmp_path: Path) -> None:
    folder = exported(tmp_path / "mine", "index-masks")
    (folder / "masks/train/0.png").unlink()
    found = inspect_folder(folder, device="cpu", workers=0)
    found.check()
    assert [finding.kind for finding in found.report.notes] == ["missing-mask"]


def test_one_class_is_nothing_to_learn(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    flat = [s._replace(label_hw=np.zeros((64, 80), np.uint8)) for s in scenes()]
    EXPORTS["index-masks"](folder, flat, CLASSES)
    with pytest.raises(DataError, match="only the class 'road' has pixels"):
        inspect_folder(folder, device="cpu", workers=0)


@pytest.mark.parametrize(
    "options",
    [
        {"classes": ["a", "b", "c"]},
        {"classes": ["a", "b", "c"], "label_map": {"0-9": 0, "10": "b", "20": 2, "30": "ignore"}},
        {"classes": ["a", "b", "c"], "colours": {"a": [0, 0, 0], "b": [1, 1, 1], "c": [2, 2, 2]}},
    ],
)
def test_numbers_and_colours_keep_their_meaning_without_a_class(options: dict[str, object]) -> None:
    before = read_options(FolderOptions, options)
    after = read_options(FolderOptions, without_classes(options, ["b"]))
    assert after.classes == ("a", "c")
    if before.colours is not None:
        assert after.colours == {"a": ((0, 0, 0),), "c": ((2, 2, 2),)}
        return
    old = before.label_map or {0: "a", 1: "b", 2: "c", 255: "ignore"}
    assert after.label_map is not None
    for number, meaning in old.items():
        name = (*before.classes, *["ignore"] * 253)[before.label_of(meaning)]
        if name != "b":
            assert after.label_map[number] == name
        else:
            assert number not in after.label_map


def test_masks_that_were_cleared_from_the_cache_are_asked_for_again(tmp_path: Path) -> None:
    folder = exported(tmp_path / "mine", "coco")
    own = read_folder(folder).data
    keep(own, workers=0)
    (item,) = list_cache()
    assert (item.kind, item.done, item.total, item.dataset) == ("masks", 6, 6, "folder")
    (item.path / "notes.md").write_text("of somebody else")
    assert len(clear_cache([item.name]).items) == 1
    assert [path.name for path in item.path.iterdir()] == ["notes.md"]
    with pytest.raises(AbsentError, match="mine` to draw its masks again"):
        open_dataset("folder", "train", folder, folder_options(own))


def test_masks_that_a_process_uses_are_not_cleared(tmp_path: Path) -> None:
    folder = exported(tmp_path / "mine", "coco")
    own = read_folder(folder).data
    keep(own, workers=0)
    opened = open_dataset("folder", "train", folder, folder_options(own))
    assert [item.in_use for item in clear_cache(everything=True).in_use] == [True]
    assert len(opened[0].label_hw) == 64


def test_a_conversion_that_was_stopped_draws_only_what_is_left(tmp_path: Path) -> None:
    folder = exported(tmp_path / "mine", "coco")
    own = read_folder(folder).data
    keep(own, workers=0)
    place = labels_folder(own)
    assert place is not None
    (place / "about.json").unlink()
    (place / "000001.png").unlink()
    before = (place / "000000.png").stat().st_mtime_ns
    keep(own, workers=0)
    assert (place / "000001.png").is_file()
    assert (place / "000000.png").stat().st_mtime_ns == before


def test_other_annotations_get_other_masks(tmp_path: Path) -> None:
    folder = exported(tmp_path / "mine", "yolo")
    one = labels_folder(read_folder(folder).data)
    text = next(folder.rglob("labels/train/*.txt"))
    text.write_text(text.read_text().replace("0.250000", "0.260000", 1) + "0 0 0 0 1 1 1\n")
    assert labels_folder(read_folder(folder).data) != one


def test_a_folder_of_the_same_name_elsewhere_is_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for label, place in enumerate(("here", "there")):
        folder = tmp_path / place / "mine"
        for name in "abcd":
            save_image(folder / f"{name}.png", scenes(1)[0])
            label_hw = np.full((64, 80), label, np.uint8)
            label_hw[:9] = 1 - label
            save_mask(folder / f"{name}_mask.png", label_hw)
        monkeypatch.chdir(folder.parent)
        data = inspect_folder(Path("mine"), device="cpu", workers=0, keep_masks=True).recipe.data
        train = open_dataset("folder", "train", data.root, data.options)
        assert (train[0].label_hw[-1] == label).all()


def test_masks_that_changed_divide_the_images_anew_in_the_same_process(tmp_path: Path) -> None:
    """Check it with a class that is in one image only before, and in two after."""
    for name in "abcdefgh":
        save_image(tmp_path / f"images/{name}.png", scenes(1)[0])
        save_mask(tmp_path / f"masks/{name}.png", np.zeros((64, 80), np.uint8))
    options = {"classes": ["one", "two"], "val_choice": "classes"}

    def val() -> list[str]:
        dataset = open_dataset("folder", "val", tmp_path, options)
        return [dataset.name(index) for index in range(len(dataset))]

    [first] = val()
    rest = [name for name in "abcdefgh" if name != first]
    for name in rest[:2]:
        save_mask(tmp_path / f"masks/{name}.png", np.ones((64, 80), np.uint8))
    assert set(val()) & set(rest[:2])


def test_several_processes_are_told_to_take_a_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reconet.engine import check_one_process

    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RecipeError, match="several processes take a recipe"):
        check_one_process("mine")


@pytest.mark.parametrize("way", ["--set", "classes.txt"])
def test_black_and_white_have_the_names_that_people_give(tmp_path: Path, way: str) -> None:
    folder = exported(tmp_path / "mine", "index-masks")
    for path in folder.glob("masks/*/*.png"):
        label_hw = np.asarray(Image.open(path))
        save_mask(path, np.where(label_hw == 1, 255, 0).astype(np.uint8))
    (folder / "classes.txt").unlink()
    settings = ['data.options.classes=["wall","crack"]']
    if way == "classes.txt":
        (folder / "classes.txt").write_text("wall\ncrack\n")
        settings = []
    found = inspect_folder(folder, settings, device="cpu", workers=0)
    assert found.report.ok
    data = found.recipe.data
    dataset = open_dataset("folder", "train", data.root, data.options)
    assert dataset.info.classes == ("wall", "crack")
    np.testing.assert_array_equal(dataset[0].label_hw, scenes()[0].label_hw == 1)
    with pytest.raises(RecipeError, match="the masks hold 2 classes, in this order"):
        inspect_folder(folder, ['data.options.classes=["a","b","c"]'], device="cpu", workers=0)


def test_other_names_keep_the_meaning_of_colours(tmp_path: Path) -> None:
    folder = exported(tmp_path / "mine", "colour-masks")
    settings = ['data.options.classes=["a","b","c"]']
    found = inspect_folder(folder, settings, device="cpu", workers=0, keep_masks=True)
    data = found.recipe.data
    dataset = open_dataset("folder", "train", data.root, data.options)
    assert dataset.info.classes == ("a", "b", "c")
    np.testing.assert_array_equal(dataset[0].label_hw, scenes()[0].label_hw)


@pytest.mark.parametrize("form", ["labelme", "index-masks"])
def test_images_that_contradict_each_other_stop_until_one_option_leaves_them_out(
    tmp_path: Path, form: str
) -> None:
    folder = exported(tmp_path / "mine", form, 8, "train")
    images = sorted(folder.rglob("train/0.png"), key=lambda path: "masks" in path.parts)
    copy = images[0].with_name("1.png")
    copy.write_bytes(images[0].read_bytes())
    other = scenes()[0].label_hw[::-1]
    if form == "labelme":
        text = copy.with_suffix(".json").read_text().replace('"roof"', '"tree"')
        copy.with_suffix(".json").write_text(text)
    else:
        save_mask(folder / "masks/train/1.png", other)
        for kind in ("images", "masks"):  # without splits
            for path in (folder / kind / "train").iterdir():
                path.rename(folder / kind / path.name)
            (folder / kind / "train").rmdir()
    found = inspect_folder(folder, device="cpu", workers=0)
    [problem] = found.report.problems
    assert problem.kind == "duplicate-mask"
    [proposal] = problem.proposals
    again = inspect_folder(folder, proposal.settings, device="cpu", workers=0, keep_masks=True)
    assert again.report.ok
    assert sum(split.images for split in again.report.splits) == 6
