"""Change settings by their dotted names, as `--set optim.lr=0.02` does on the command line."""

import json
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from reconet.errors import RecipeError, unknown
from reconet.recipes.schema import Recipe, list_settings, validation_message
from reconet.recipes.values import without_repeats

# The length of a training is given in epochs or in steps. Setting one clears the other.
_CLEARS = {"train.epochs": "steps", "train.steps": "epochs"}
# What a setting makes meaningless, with the value that stands for "not set".
_RESETS: dict[str, tuple[str, object]] = {"model.backbone": ("backbone_config", {})}


def apply_overrides(recipe: Recipe, settings: Iterable[str]) -> Recipe:
    """Apply texts such as "optim.lr=0.02", in order.

    With another dataset, the recipe's own options of the old one are dropped.
    """
    settings = list(settings)
    given = {key.strip(): text.strip() for key, _, text in (s.partition("=") for s in settings)}
    if all(given.get(key, "null") != "null" for key in _CLEARS):
        raise RecipeError("train.steps and train.epochs exclude each other; set one of them.")
    if given.get("data.name", recipe.data.name) != recipe.data.name:
        data = recipe.data.model_copy(update={"options": {}})
        recipe = recipe.model_copy(update={"data": data})
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise RecipeError(f"a setting is key=value, such as optim.lr=0.02, got {setting!r}.")
        recipe = override(recipe, key.strip(), text.strip())
    return recipe


def override(recipe: Recipe, key: str, text: str) -> Recipe:
    """Return a copy with one setting changed, e.g. override(recipe, "optim.lr", "0.02")."""
    _check_known(recipe, key)
    values = recipe.model_dump()
    *groups, name = key.split(".")
    node: dict[str, Any] = values
    for group in groups:
        node = node[group]
    if key in _CLEARS and text != "null":
        node[_CLEARS[key]] = None
    if key in _RESETS:
        other, empty = _RESETS[key]
        node[other] = empty
    errors: list[ValidationError] = []
    broken = _broken_json(key, text)
    if broken is not None and ".options" in key:  # options may be of any type, here too a text
        raise broken
    for reading in _readings(text):
        node[name] = reading
        try:
            return Recipe.model_validate(values)
        except ValidationError as error:
            errors.append(error)
    raise broken or RecipeError(validation_message(errors[0])) from errors[0]


def with_context(recipe: Recipe, context: str) -> Recipe:
    """Return a recipe with another context, and without the options of the old one."""
    if context == recipe.model.context:
        return recipe
    model = recipe.model.model_copy(update={"context": context, "options": {}})
    return recipe.model_copy(update={"model": model})


def _check_known(recipe: Recipe, key: str) -> None:
    """Raise if there is no setting `key`: group.name, or group.options.name with any name."""
    known = [name for name, _, _ in list_settings(recipe)]
    group, *rest = key.split(".")
    is_option = len(rest) == 2 and rest[0] == "options" and rest[1] != ""
    if key in known or (is_option and f"{group}.options" in known):
        return
    in_group = [name for name in known if name.startswith(f"{group}.")]
    if in_group:
        raise unknown("setting", key, in_group)
    same_name = [name for name in known if name.endswith(f".{key}")]
    if same_name:
        raise RecipeError(f"unknown setting {key!r}. Did you mean {' or '.join(same_name)}?")
    raise unknown("group of settings", group, type(recipe).model_fields)


def _broken_json(key: str, text: str) -> RecipeError | None:
    """Return the error for a text that looks like a list or a table in JSON, but is none."""
    if not text.startswith(("[", "{")) or text.startswith("{split}"):  # as in {split}/images
        return None
    try:
        json.loads(text, object_pairs_hook=without_repeats)
    except json.JSONDecodeError as error:
        reason = error.msg.split(":")[0]
        example = {"[": '["road","roof"]', "{": '{"road":0,"roof":1}'}[text[0]]
        return RecipeError(
            f"{key}: this is no JSON: {reason[:1].lower()}{reason[1:]} at column {error.colno} of "
            f"{text}. Texts need double quotes, and the shell single ones around it all: "
            f"--set '{key}={example}'."
        )
    except ValueError as error:
        return RecipeError(f"{key}: {error}.")
    except RecursionError:
        pass
    return None


def _readings(text: str) -> list[object]:
    """Return what a text may mean: JSON (numbers, true, null, lists), or the text itself."""
    try:
        return [json.loads(text, parse_constant=str), text]  # NaN and Infinity are no JSON
    except (ValueError, RecursionError):
        return [text]
