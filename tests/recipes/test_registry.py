"""The recipes of the paper, and how they are found."""

from pathlib import Path

import pytest
import torch

from reconet.data import DATASETS
from reconet.errors import RecipeError
from reconet.models.segmenter import build_model
from reconet.recipes import (
    RECIPES,
    Augment,
    apply_overrides,
    find_recipe,
    without_paths,
    write_recipe,
)


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_survives_being_written_and_read(name: str, tmp_path: Path) -> None:
    write_recipe(find_recipe(name), tmp_path / "recipe.json")
    assert find_recipe(str(tmp_path / "recipe.json")) == find_recipe(name)
    assert find_recipe(str(tmp_path)) == find_recipe(name)  # a run directory


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_builds_its_network(name: str) -> None:
    with torch.device("meta"):
        model = build_model(find_recipe(name), num_classes=21, pretrained=False)
    assert model.num_classes == 21


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_says_in_one_line_what_it_is(name: str) -> None:
    description = RECIPES[name].about
    assert description
    assert "\n" not in description


def test_a_missing_recipe_file_and_a_mistyped_name_get_different_errors() -> None:
    with pytest.raises(RecipeError, match=r"no recipe file lost\.json"):
        find_recipe("lost.json")
    with pytest.raises(RecipeError, match=r"Did you mean 'voc12/reconet_r101'\?"):
        find_recipe("voc12/reconet_101")


# Base learning rate, epochs or steps, batch, crop, weight decay, training split: section 4.1 and
# the appendix of the paper.
PAPER = {
    "voc12/reconet_r50": (0.001, 80, 16, (512, 512), 1e-4, "trainaug"),
    "voc12/reconet_r101": (0.001, 80, 16, (512, 512), 1e-4, "trainaug"),
    "voc12/reconet_r101_finetune": (1e-5, 50, 16, (512, 512), 1e-4, "train"),
    "voc12/reconet_r101_trainval": (1e-5, 50, 16, (512, 512), 1e-4, "trainval"),
    "voc12/reconet_r152": (0.001, 80, 16, (512, 512), 1e-4, "trainaug"),
    "voc12/reconet_r152_trainval": (1e-5, 50, 16, (512, 512), 1e-4, "trainval"),
    "coco/reconet_r101": (0.004, 30, 16, (512, 512), 1e-4, "train"),
    "coco/reconet_r152": (0.004, 30, 16, (512, 512), 1e-4, "train"),
    "pcontext/reconet_r101": (0.001, 80, 16, (512, 512), 1e-4, "train"),
    "cocostuff/reconet_r101": (0.001, 180, 16, (512, 512), 1e-4, "train"),
    "ade20k/reconet_r50": (0.01, 120, 16, (512, 512), 1e-4, "train"),
    "ade20k/reconet_r101": (0.01, 120, 16, (512, 512), 1e-4, "train"),
    "siftflow/reconet_r101": (0.0025, 80, 16, (512, 512), 1e-4, "train"),
    "cityscapes/reconet_r50": (0.01, 40_000, 8, (512, 1024), 5e-4, "train"),
    "cityscapes/reconet_r101": (0.01, 40_000, 8, (512, 1024), 5e-4, "train"),
    "cityscapes/reconet_r101_test": (0.01, 100_000, 8, (512, 1024), 5e-4, "trainval"),
}


@pytest.mark.parametrize("name", sorted(set(RECIPES) | set(PAPER)))
def test_the_paper_recipes_carry_the_paper_settings(name: str) -> None:
    if "/reconet_" not in name:
        assert name not in PAPER
        return
    r = find_recipe(name)
    length = r.train.epochs or r.train.steps
    found = (r.optim.lr, length, r.train.batch, r.data.crop, r.optim.weight_decay)
    assert (*found, r.data.train_split) == PAPER[name]
    assert (r.optim.momentum, r.optim.power, r.optim.head_lr_factor) == (0.9, 0.9, 10.0)
    assert (r.data.scale, r.data.flip, r.loss.aux_weight) == ((0.5, 2.0), True, 0.2)
    assert name.endswith(("r50", "r101", "r152", "finetune", "trainval", "test"))
    assert r.model.backbone.removeprefix("resnet") in name
    assert (r.model.weights, r.model.stem, r.model.context) == ("imagenet", "deep", "reconet")


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_only_folders_are_augmented_beyond_the_paper(name: str) -> None:
    off = Augment()
    augment = find_recipe(name).data.augment
    if not name.startswith("folder/"):
        assert augment == off
        return
    for field in ("brightness", "contrast", "saturation", "hue", "blur", "jpeg", "rotation"):
        assert getattr(augment, field) != getattr(off, field)
    assert not augment.turn  # photos have an up
    assert not augment.flip_vertical


def test_plain_transformers_get_whole_patches() -> None:
    for name in (name for name in RECIPES if name.endswith("/frozen_dinov2_s")):
        data = find_recipe(name).data
        assert {side % 14 for side in (*data.crop, data.base_size)} == {0}


@pytest.mark.parametrize("name", sorted(name for name in RECIPES if "/frozen" in name))
def test_frozen_recipes_can_use_the_cache_and_see_every_view(name: str) -> None:
    r = find_recipe(name)
    assert r.model.frozen
    assert (r.model.project is not None) == (r.model.backbone == "resnet50")
    assert r.data.views is not None
    assert r.train.steps is not None
    images = DATASETS[r.data.name].info.splits.get(r.data.train_split) or 1000
    assert r.train.steps * r.train.batch >= r.data.views * images
    assert r.train.steps % r.train.eval_every == 0


def test_the_small_recipe_fine_tunes_all_of_the_frozen_one() -> None:
    frozen, small = find_recipe("voc12/frozen_r50"), find_recipe("voc12/small_r50")
    assert not small.model.frozen
    assert small.data.views is None
    assert small.model == frozen.model.model_copy(update={"frozen": False})
    assert small.eval == frozen.eval.model_copy(update={"scales": (1.25,)})


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 2}', '{"format": 1}', "\xff"])
def test_a_broken_recipe_file_is_one_line(content: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(RecipeError) as raised:
        find_recipe(str(path))
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_text_that_is_not_json_is_named_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text('{\n  "format": 1,\n  lr 0.02\n}')
    with pytest.raises(RecipeError, match=r"notes\.txt is not JSON \(line 3, column 3: "):
        find_recipe(str(path))


def test_a_recipe_without_paths_is_otherwise_the_same() -> None:
    paths = ["data.root=/home/me/voc", "model.weights=~/nets/r50.pth", "train.init_from=../first"]
    recipe = apply_overrides(find_recipe("voc12/reconet_r50"), paths)
    shared = without_paths(recipe)
    assert (shared.data.root, shared.train.init_from) == (None, None)
    assert shared.model.weights == "r50.pth"
    kept = apply_overrides(shared, paths)
    assert kept == recipe
