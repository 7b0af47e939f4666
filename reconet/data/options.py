"""Check the options of a dataset (data.options of a recipe)."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from reconet.errors import IncompleteError, RecipeError, unknown
from reconet.recipes.schema import Settings, validation_message

S = TypeVar("S", bound=Settings)


def read_options(kind: type[S], options: Mapping[str, object]) -> S:
    """Return the options as settings, or raise an error that names the wrong one."""
    for name in options:
        if name not in kind.model_fields:
            raise unknown("option data.options", name, kind.model_fields)
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        missing = all(problem["type"] == "missing" for problem in error.errors())
        kind_of_error = IncompleteError if missing else RecipeError
        raise kind_of_error(validation_message(error, "data.options")) from error
