"""Describe a trained network: all that one must know to use it, beside its weights.

Every file that holds a network carries this record as metadata: texts by name, in JSON.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, Field, Json, ValidationError, model_validator

from reconet.errors import CheckpointError, RecipeError
from reconet.recipes import dump_recipe, validate_recipe
from reconet.recipes.schema import Recipe
from reconet.system.readable import counted
from reconet.system.reading import SETTINGS_BYTES
from reconet.types import MAX_CLASSES, Palette

FORMAT = "1"
Byte = Annotated[int, Field(ge=0, le=255)]
T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class NetworkInfo:
    """Recipe, classes, colours, and how good the network was at which step.

    `origin` is empty for a network that was trained here. For others it says where the weights are
    from: source, name, address, licence, and by which protocol they were scored.
    """

    recipe: Recipe
    classes: tuple[str, ...]
    palette: Palette
    step: int
    score: dict[str, float]
    imports: tuple[str, ...] = ()  # what --import named when it was made, for messages alone
    origin: dict[str, str] = field(default_factory=dict)

    def texts(self) -> dict[str, str]:
        """Write the record as texts, the metadata of a file."""
        texts = {
            "format": FORMAT,
            "recipe": dump_recipe(self.recipe),
            "classes": json.dumps(self.classes),
            "palette": json.dumps(self.palette),
            "step": str(self.step),
            "score": json.dumps(self.score),
        }
        optional = {"imports": self.imports, "origin": self.origin}
        return texts | {name: json.dumps(value) for name, value in optional.items() if value}

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], source: Path) -> Self:
        """Check the metadata of a file, which anybody may have written."""
        checked = check_texts(_NetworkTexts, texts, source)
        values = {key: value for key, value in checked.recipe.items() if key != "format"}
        try:
            recipe = validate_recipe(values, str(source))
        except RecipeError as error:
            raise CheckpointError(str(error)) from error
        return cls(
            recipe=recipe,
            classes=checked.classes,
            palette=checked.palette,
            step=checked.step,
            score=checked.score,
            imports=checked.imports,
            origin=checked.origin or {},
        )


class _NetworkTexts(BaseModel):
    recipe: Json[dict[str, Any]]
    classes: Json[Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_CLASSES)]]
    palette: Json[tuple[tuple[Byte, Byte, Byte], ...]]
    step: Annotated[int, Field(ge=0)]
    score: Json[dict[str, float]]
    imports: Json[tuple[str, ...]] = ()
    origin: Json[dict[str, str]] | None = None

    @model_validator(mode="after")
    def _one_colour_each(self) -> Self:
        if len(self.palette) != len(self.classes):
            colours = counted(len(self.palette), "colour")
            raise ValueError(f"{colours} for {counted(len(self.classes), 'class')}")
        return self


def check_texts(kind: type[T], texts: Mapping[str, str], source: Path) -> T:
    """Check texts by a schema, and say in one line what is missing or wrong."""
    for name in kind.model_fields:
        if len(texts.get(name, "")) > SETTINGS_BYTES:
            raise CheckpointError(
                f"{source} does not say what network it is: its {name} has {len(texts[name]):,} "
                "letters, far more than any network needs."
            )
    try:
        return kind.model_validate(texts)
    except ValidationError as error:
        reason = _first_problem(error)
        raise CheckpointError(f"{source} does not say what network it is: {reason}.") from error


def _first_problem(error: ValidationError) -> str:
    """Say what is wrong, without the text itself, which may be long."""
    problem = error.errors()[0]
    if not problem["loc"]:
        return problem["msg"].removeprefix("Value error, ")
    how = "is missing" if problem["type"] == "missing" else "cannot be used"
    return f"its {problem['loc'][0]} {how}"
