"""What a training needs, from its recipe."""

import pytest

from reconet.engine.setup import total_steps
from reconet.errors import RecipeError
from tests.engine.steps import recipe


def test_steps_are_those_of_the_epochs_or_as_they_are_given() -> None:
    assert total_steps(recipe("train.epochs=3", "train.batch=4"), 11) == 6
    assert total_steps(recipe("train.steps=5"), 11) == 5
    with pytest.raises(RecipeError, match="needs at least as many images"):
        total_steps(recipe("train.batch=12"), 11)
