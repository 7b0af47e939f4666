"""Recipes as files."""

from pathlib import Path

import pytest

from reconet.errors import RecipeError
from reconet.recipes import apply_overrides, find_recipe, without_paths


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
