"""Options of a single dataset: checked, and refused in one line."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from reconet.errors import RecipeError, unknown
from reconet.recipes.schema import Settings, in_one_line

S = TypeVar("S", bound=Settings)


def read_options(kind: type[S], options: Mapping[str, object]) -> S:
    """The options as settings of this kind, or which of them is wrong and why."""
    for name in options:
        if name not in kind.model_fields:
            raise unknown("option data.options", name, kind.model_fields)
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        raise RecipeError(in_one_line(error, "data.options")) from error
