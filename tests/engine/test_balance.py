"""Weights of classes from their pixels in the training split."""

import json
from pathlib import Path

import pytest

from reconet.engine import balanced_weights, check_recipe, run_training
from reconet.errors import RecipeError
from tests.factories import ProgressRecorder, tiny_recipe

BALANCED = ("loss.class_weights=balanced", "data.options.train=6", "data.options.val=2")


def test_the_weight_is_the_root_of_the_mean_count_over_the_own_count() -> None:
    assert balanced_weights([100, 400, 0, 1500]) == pytest.approx(
        ((500 / 100) ** 0.5, (500 / 400) ** 0.5, 1.0, (500 / 1500) ** 0.5)
    )
    assert balanced_weights([7, 7]) == (1.0, 1.0)


@pytest.mark.parametrize("text", [None, "", "[]", '{"pixels": [1]}', '{"pixels": [1, -2]}', "[[["])
def test_pixels_are_counted_once_and_kept_unless_they_are_broken(
    tmp_path: Path, text: str | None
) -> None:
    def heard(steps: int, *, resume: bool) -> list[str]:
        progress, recipe = ProgressRecorder(), tiny_recipe(*BALANCED, f"train.steps={steps}")
        run_training(recipe, tmp_path, device="cpu", resume=resume, progress=progress)
        assert [x for x in progress.lines if x.startswith("class weights, balanced: ")]
        return progress.lines

    assert "start 6" in heard(1, resume=False)
    kept = json.loads((tmp_path / "class_counts.json").read_text())
    assert len(kept["pixels"]) == len(kept["classes"])
    if text is not None:
        (tmp_path / "class_counts.json").write_text(text)
    assert ("start 6" in heard(2, resume=True)) == (text is not None)
    assert json.loads((tmp_path / "class_counts.json").read_text()) == kept


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["loss.cross_entropy=0"], "has no term; set one of these above 0: loss.cross_entropy"),
        (["loss.cross_entropy=0", "loss.dice=1", "loss.ohem=0.5"], "loss.ohem is for losses of"),
        (
            ["loss.cross_entropy=0", "loss.lovasz=1", "loss.class_weights=balanced"],
            "loss.class_weights is for losses of single pixels",
        ),
        (["loss.class_weights=[1, 2]"], "2 values for 14 classes"),
        (["loss.dice=-1"], "loss.dice"),
        (["loss.class_weights=ballanced"], "loss.class_weights"),
        (["loss.focal_gamma=0.5"], "loss.focal_gamma"),
    ],
)
def test_wrong_settings_of_the_loss_are_refused(settings: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        check_recipe(tiny_recipe(*settings))
