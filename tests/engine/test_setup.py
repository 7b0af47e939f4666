"""What a training needs, from its recipe."""

from pathlib import Path

import pytest

from reconet.engine import run_training, total_steps
from reconet.errors import CheckpointError, RecipeError
from reconet.recipes import apply_overrides
from tests.engine.steps import recipe


def test_steps_are_those_of_the_epochs_or_as_they_are_given() -> None:
    in_epochs = apply_overrides(recipe("train.batch=4"), ["train.epochs=3"])
    assert total_steps(in_epochs, 11) == 6
    assert total_steps(recipe("train.steps=5"), 11) == 5
    with pytest.raises(RecipeError, match="needs at least as many images"):
        total_steps(recipe("train.batch=12"), 11)


def test_weights_that_cannot_be_had_stop_a_training_before_it_writes_or_reads(
    tmp_path: Path,
) -> None:
    wanted = recipe(f"model.weights={tmp_path / 'none.safetensors'}", "data.root=/nowhere")
    with pytest.raises(CheckpointError, match="no weight file"):
        run_training(wanted, tmp_path / "run")
    assert not (tmp_path / "run").exists()
