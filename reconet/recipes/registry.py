"""Find a recipe by its name, `<dataset>/<training>`, and read and write recipes as JSON files.

To add a recipe, add a line to the table of paper.py, public.py or scenes.py.
"""

import json
import re
from pathlib import Path

from pydantic import ValidationError

from reconet.errors import RecipeError, pick
from reconet.recipes.paper import PAPER, NamedRecipe
from reconet.recipes.public import PUBLIC
from reconet.recipes.scenes import SCENES
from reconet.recipes.schema import Recipe, validation_message
from reconet.recipes.values import HUB_PREFIX
from reconet.system.files import write_text
from reconet.system.readable import short_paths
from reconet.system.reading import SETTINGS_BYTES, read_text
from reconet.system.run_files import RECIPE


def _in_order(item: tuple[str, NamedRecipe]) -> str:
    return re.sub(r"\d+", lambda number: number[0].zfill(3), item[0])  # r50 before r101


RECIPES = dict(sorted((PAPER | PUBLIC | SCENES).items(), key=_in_order))
FORMAT = 1  # of the files


def find_recipe(name: str) -> Recipe:
    """Find a recipe by its name, in a JSON file, or in a run directory."""
    path = Path(name)
    if path.is_dir() and (path / RECIPE).is_file():
        return read_recipe(path / RECIPE)
    if path.suffix == ".json" or path.is_file():
        if not path.is_file():
            raise RecipeError(f"there is no recipe file {name}.")
        return read_recipe(path)
    return pick(RECIPES, name, "recipe").make()


def read_recipe(path: Path) -> Recipe:
    """Read a recipe from a JSON file."""
    try:
        values = json.loads(read_text(path, limit=SETTINGS_BYTES))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RecipeError(f"the recipe {path} is not JSON ({where}: {error.msg}).") from error
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecipeError(f"cannot read the recipe {path}: {reason}.") from error
    if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
        raise RecipeError(f"{path} is not a recipe of format {FORMAT}; `reconet show` writes them.")
    return validate_recipe(values, str(path))


def write_recipe(recipe: Recipe, path: Path) -> None:
    """Write a recipe to a JSON file."""
    write_text(path, dump_recipe(recipe) + "\n")


def dump_recipe(recipe: Recipe) -> str:
    """Return a recipe as JSON, with its format number."""
    return json.dumps({"format": FORMAT, **recipe.model_dump(mode="json")}, indent=2)


def validate_recipe(values: object, source: str = "recipe") -> Recipe:
    """Make a recipe of plain values, or raise an error of one line that names the wrong ones."""
    try:
        return Recipe.model_validate(values)
    except ValidationError as error:
        raise RecipeError(f"{source}: {validation_message(error)}") from error


def without_paths(recipe: Recipe) -> Recipe:
    """Return a recipe that does not tell where its owner keeps files, so that it can be shared."""
    values = short_paths(recipe.model_dump(mode="json"))
    values["data"]["root"] = values["train"]["init_from"] = None
    if recipe.model.backbone.startswith(HUB_PREFIX):
        values["model"]["backbone"] = HUB_PREFIX + recipe.model.backbone_title
    return Recipe.model_validate(values)
