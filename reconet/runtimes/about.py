"""What an exported file says of itself beside its graph: texts by name, in any format."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from reconet.errors import CheckpointError, RecipeError, first_line
from reconet.recipe import Recipe, dump, validate

FORMAT = "1"
KEY = "reconet"  # where the texts are, in formats that keep other things beside them

_NAMES = TypeAdapter(tuple[str, ...])
_COLOURS = TypeAdapter(tuple[tuple[int, int, int], ...])
_SCORE = TypeAdapter(dict[str, float])
_OBJECT = TypeAdapter(dict[str, Any])


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
            "recipe": dump(self.recipe),
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
        try:
            recipe = {k: v for k, v in json.loads(texts["recipe"]).items() if k != "format"}
            about = cls(
                recipe=validate(recipe, str(source)),
                classes=_NAMES.validate_json(texts["classes"]),
                palette=_COLOURS.validate_json(texts["palette"]),
                step=int(texts["step"]),
                score=_SCORE.validate_json(texts["score"]),
                precision=texts["precision"],
                smallest=int(texts["smallest"]),
                int8=_OBJECT.validate_json(texts["int8"]),
            )
        except (KeyError, ValueError, AttributeError, ValidationError, RecipeError) as error:
            reason = first_line(error)
            raise CheckpointError(f"{source} does not say what network it is: {reason}.") from error
        if len(about.classes) != len(about.palette):
            raise CheckpointError(f"{source} has not as many colours as classes.")
        return about
