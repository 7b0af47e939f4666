"""Check the options of a dataset (data.options of a recipe)."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from pydantic import ValidationError

from reconet.errors import IncompleteError, RecipeError, unknown
from reconet.recipes.schema import Settings, validation_message
from reconet.recipes.values import small_options

S = TypeVar("S", bound=Settings)


def read_options(kind: type[S], options: Mapping[str, object]) -> S:
    """Return the options as settings, or raise an error that names the wrong one."""
    try:
        small_options(dict(options))
    except ValueError as error:
        raise RecipeError(f"data.options: {error}.") from error
    check_known(options, kind.model_fields)
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        missing = all(problem["type"] == "missing" for problem in error.errors(include_url=False))
        kind_of_error = IncompleteError if missing else RecipeError
        message = validation_message(error, "data.options")
        raise kind_of_error(message + example(kind, error, "data.options.{}={}")) from error


def example(kind: type[Settings], error: ValidationError, form: str) -> str:
    """Return a sentence that shows a value of what is missing, where the settings have one."""
    missing = [
        str(one["loc"][0]) for one in error.errors(include_url=False) if one["type"] == "missing"
    ]
    shown = [(name, kind.model_fields[name].examples or [None]) for name in missing]
    texts = [form.format(name, some[0]) for name, some in shown if some[0]]
    return f" For example: {', '.join(texts)}" if texts else ""


def check_known(options: Mapping[str, object], known: Iterable[str] = ()) -> None:
    """Raise if there is an option that a dataset does not have."""
    choices = set(known)
    for name in map(str, options):  # Python allows other keys than texts
        if name not in choices:
            raise unknown("option data.options", name, choices)
