"""What an exported file says of itself beside its graph: texts by name, in any format."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Json

from reconet.errors import CheckpointError, RecipeError
from reconet.models.trained import Metadata
from reconet.recipes.schema import Recipe
from reconet.recipes.storage import dump_recipe, validate_recipe

FORMAT = "1"
LABELS, LOGITS = "labels", "logits"  # the outputs, in this order
KEY = "reconet"  # where the texts are, in formats that keep other things beside them


class _Texts(Metadata):
    """Those of an export: of a network's own file, and some more."""

    precision: Literal["fp32", "int8"]
    smallest: Annotated[int, Field(ge=1)]
    int8: Json[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class About:
    """All that one must know to use an exported file, and where it came from."""

    recipe: Recipe
    classes: tuple[str, ...]
    palette: tuple[tuple[int, int, int], ...]
    step: int
    score: dict[str, float]
    precision: str  # of the weights and products: fp32 or int8
    smallest: int  # shortest side of a picture that it takes
    int8: dict[str, Any] = field(default_factory=dict)  # how it was made, and what it cost

    def texts(self) -> dict[str, str]:
        return {
            "format": FORMAT,
            "recipe": dump_recipe(self.recipe),
            "classes": json.dumps(self.classes),
            "palette": json.dumps(self.palette),
            # Plainly, beside the recipe that holds them too: programs that are not ours read these.
            "base_size": str(self.recipe.data.base_size),
            "crop": json.dumps(self.recipe.data.crop),
            "step": str(self.step),
            "score": json.dumps(self.score),
            "precision": self.precision,
            "smallest": str(self.smallest),
            "int8": json.dumps(self.int8),
        }

    @classmethod
    def read(cls, texts: Mapping[str, str], source: Path) -> Self:
        """From the texts of a file, which may be anybody's."""
        if texts.get("format") != FORMAT:
            raise CheckpointError(
                f"{source} was not written by `reconet export`: it does not say what network it is."
            )
        told = _Texts.read(texts, source)
        try:
            recipe = validate_recipe(
                {key: value for key, value in told.recipe.items() if key != "format"}, str(source)
            )
        except RecipeError as error:
            raise CheckpointError(str(error)) from error
        return cls(**dict(told) | {"recipe": recipe})
