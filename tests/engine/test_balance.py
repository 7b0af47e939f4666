"""Weights of classes from their pixels in the training split."""

import json
from pathlib import Path

import pytest

from reconet.data import Sample, open_dataset
from reconet.engine.balance import (
    balanced_recipe,
    balanced_weights,
    describe_weights,
    read_counts,
)
from reconet.engine.check import check_recipe
from reconet.errors import DataError, RecipeError
from reconet.system.run_files import CLASS_COUNTS
from tests.engine.steps import ALONE
from tests.factories import ProgressRecorder, tiny_recipe

OPTIONS = {"size": [32, 48], "train": 6, "val": 2}


def test_the_weight_is_the_root_of_the_mean_count_over_the_own_count() -> None:
    assert balanced_weights([100, 400, 0, 1500]) == pytest.approx(
        ((500 / 100) ** 0.5, (500 / 400) ** 0.5, 1.0, (500 / 1500) ** 0.5)
    )
    assert balanced_weights([7, 7]) == (1.0, 1.0)


def test_pixels_are_counted_once_and_kept_for_a_resumed_run(tmp_path: Path) -> None:
    recipe = tiny_recipe("loss.class_weights=balanced")
    dataset, progress = open_dataset("scenes", "train", None, OPTIONS), ProgressRecorder()
    first = balanced_recipe(recipe, tmp_path, dataset, ALONE, progress, resume=False)
    assert progress.lines.count("advance 1") == len(dataset)
    kept = json.loads((tmp_path / CLASS_COUNTS).read_text())
    assert sum(kept["pixels"]) <= 6 * 32 * 48
    assert first.loss.class_weights == balanced_weights(kept["pixels"])

    again = ProgressRecorder()
    assert balanced_recipe(recipe, tmp_path, dataset, ALONE, again, resume=True) == first
    assert "advance 1" not in again.lines
    assert [line.partition(":")[0] for line in again.lines] == ["class weights, balanced"]


def test_a_recipe_with_other_weights_stays_as_it_is(tmp_path: Path) -> None:
    dataset, progress = open_dataset("scenes", "train", None, OPTIONS), ProgressRecorder()
    recipe = tiny_recipe("loss.class_weights=[1, 2]")
    assert balanced_recipe(recipe, tmp_path, dataset, ALONE, progress, resume=False) is recipe
    assert progress.lines == []


@pytest.mark.parametrize("text", ["", "[]", '{"pixels": [1]}', '{"pixels": [1, -2]}', "[[[["])
def test_broken_counts_are_counted_again(tmp_path: Path, text: str) -> None:
    (tmp_path / CLASS_COUNTS).write_text(text)
    assert read_counts(tmp_path / CLASS_COUNTS, 2) is None
    assert read_counts(tmp_path / "nothing", 2) is None


def test_of_many_classes_the_lightest_and_the_heaviest_are_named() -> None:
    names = [f"c{number}" for number in range(20)]
    text = describe_weights(names, [1.0 + number for number in range(20)])
    assert text == "c0 1, c1 2, c2 3, c3 4, ..., c16 17, c17 18, c18 19, c19 20"


def test_a_split_without_labels_cannot_be_balanced(tmp_path: Path) -> None:
    class Void:
        info, split = open_dataset("scenes", "train", None, OPTIONS).info, "train"

        def __len__(self) -> int:
            return 0

        def name(self, index: int) -> str:
            raise IndexError

        def __getitem__(self, index: int) -> Sample:
            raise IndexError

    recipe = tiny_recipe("loss.class_weights=balanced")
    with pytest.raises(DataError, match="no labelled pixel"):
        balanced_recipe(recipe, tmp_path, Void(), ALONE, ProgressRecorder(), resume=False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["loss.cross_entropy=0"], "has no term; set one of these above 0: loss.cross_entropy"),
        (["loss.cross_entropy=0", "loss.dice=1", "loss.ohem=0.5"], "loss.ohem is for losses of"),
        (
            ["loss.cross_entropy=0", "loss.lovasz=1", "loss.class_weights=balanced"],
            "loss.class_weights is for losses of single pixels",
        ),
    ],
)
def test_settings_that_no_term_uses_are_refused(settings: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        check_recipe(tiny_recipe(*settings))


@pytest.mark.parametrize(
    "text", ["loss.dice=-1", "loss.class_weights=ballanced", "loss.focal_gamma=0.5"]
)
def test_wrong_values_of_the_loss_are_refused(text: str) -> None:
    with pytest.raises(RecipeError, match=text.partition("=")[0]):
        tiny_recipe(text)
