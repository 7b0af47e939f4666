"""Read and write recipes as JSON files."""

import json
from pathlib import Path

from pydantic import ValidationError

from reconet.errors import RecipeError
from reconet.recipes.schema import Recipe, in_one_line
from reconet.system.files import write_text
from reconet.system.paths import short_paths

FORMAT = 1


def read_recipe(path: Path) -> Recipe:
    """Read a recipe that `write_recipe` has written."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RecipeError(f"cannot read the recipe {path}: {error}.") from error
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise RecipeError(f"{path} is not a recipe of format {FORMAT}; `reconet show` writes them.")
    return validate_recipe(values, str(path))


def write_recipe(recipe: Recipe, path: Path) -> None:
    write_text(path, dump_recipe(recipe) + "\n")


def dump_recipe(recipe: Recipe) -> str:
    return json.dumps({"format": FORMAT, **recipe.model_dump(mode="json")}, indent=2)


def validate_recipe(values: object, source: str = "recipe") -> Recipe:
    """Check plain values, and say in one line which of them is wrong."""
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise RecipeError(f"{source}: {in_one_line(error)}") from error


def without_paths(recipe: Recipe) -> Recipe:
    """The recipe as others may see it: where somebody's files are concerns nobody else."""
    values = short_paths(recipe.model_dump(mode="json"))
    values["data"]["root"] = values["train"]["init_from"] = None
    return Recipe.model_validate(values)
