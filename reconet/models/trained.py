"""A trained network in one file, with all that one needs to know to use it.

safetensors with metadata: the recipe, the classes, their colours, the score. Nothing in it is run.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, Json, ValidationError, model_validator
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors_bytes
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook

from reconet.errors import CheckpointError
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.weights import compare, read_tensors
from reconet.recipes.schema import Recipe
from reconet.recipes.storage import dump_recipe, validate_recipe
from reconet.system.files import write_atomic
from reconet.system.run_files import BEST

FORMAT = 1
# Modules with a row for each class, by the beginnings of their names.
CLASSIFIERS = ("classify", "presence")
EXPORTED = (".onnx", ".pt2", ".xml")  # files of `reconet export`, which hold no weights to load
Byte = Annotated[int, Field(ge=0, le=255)]
Palette = tuple[tuple[Byte, Byte, Byte], ...]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A network with what one needs to know to use it."""

    model: Segmenter
    recipe: Recipe
    classes: tuple[str, ...]
    palette: Palette
    step: int
    score: dict[str, float]


def save_trained(
    path: Path,
    model: Segmenter,
    recipe: Recipe,
    *,
    classes: tuple[str, ...],
    palette: Palette,
    step: int,
    score: dict[str, float],
) -> None:
    metadata = {
        "format": str(FORMAT),
        "recipe": dump_recipe(recipe),
        "classes": json.dumps(classes),
        "palette": json.dumps(palette),
        "step": str(step),
        "score": json.dumps(score),
    }
    tensors = {key: value.cpu().contiguous() for key, value in model.state_dict().items()}
    write_atomic(path, lambda file: file.write(safetensors_bytes(tensors, metadata)))


def save_again(path: Path, trained: Trained) -> None:
    """A network that was loaded, perhaps changed, and is to be kept."""
    save_trained(
        path,
        trained.model,
        trained.recipe,
        classes=trained.classes,
        palette=trained.palette,
        step=trained.step,
        score=trained.score,
    )


def load_trained(source: Path) -> Trained:
    """The network of a run directory or of a .safetensors file that a run has written."""
    path = source / BEST if source.is_dir() else source
    refuse_other_files(source)
    if not path.is_file():
        raise CheckpointError(f"no trained network at {path}; a run writes it at its validations.")
    about = Metadata.read(_metadata(path), path)
    recipe = validate_recipe({k: v for k, v in about.recipe.items() if k != "format"}, str(path))
    state = read_tensors(path)
    with _no_larger_than(sum(value.numel() for value in state.values()), path):
        model = build_model(recipe, len(about.classes), pretrained=False)
    put_weights(model, state, path)
    return Trained(
        model=model.eval(),
        recipe=recipe,
        classes=about.classes,
        palette=about.palette,
        step=about.step,
        score=about.score,
    )


def refuse_other_files(source: Path) -> None:
    """What is near a trained network but is none: a place that is not there, an export, and the
    state that a training resumes from."""
    if not source.exists():
        raise CheckpointError(f"no trained network at {source}: it does not exist.")
    if source.is_dir():
        return
    if source.suffix in EXPORTED:
        raise CheckpointError(
            f"{source} is an export, and this needs the network itself: "
            f"name the run directory or its {BEST}."
        )
    if source.suffix in (".pt", ".pth"):
        raise CheckpointError(
            f"{source} is not for use, but what a training resumes from: "
            f"name the run directory or its {BEST}."
        )


@contextmanager
def _no_larger_than(weights: int, path: Path) -> Iterator[None]:
    """Refuse a recipe that asks for a far larger network than its file holds, before its memory is
    used: files come from strangers. (A meta device would cost a second of imports.)"""
    made, thread = 0, get_ident()

    def count(_module: object, _name: str, parameter: Tensor | None) -> None:
        nonlocal made
        if parameter is not None and get_ident() == thread:
            made += parameter.numel()
        if made > 2 * weights + 10**6:  # some parameters may be registered twice
            raise CheckpointError(
                f"{path} holds another network: its recipe asks for a larger one."
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def put_weights(
    model: Segmenter, state: Mapping[str, Tensor], source: Path, *, other_classes: bool = False
) -> None:
    """Give a network its weights, all of them; with `other_classes`, classifiers of another shape
    stay as they are."""
    report = compare(model.state_dict(), state)
    other_shape = [k for k in report.other_shape if not (other_classes and _classifies(k))]
    if report.missing or report.unexpected or other_shape:
        first = [*report.missing, *report.unexpected, *other_shape][0]
        raise CheckpointError(
            f"{source} holds another network: {len(report.missing)} weights missing, "
            f"{len(report.unexpected)} unexpected, {len(other_shape)} of another shape "
            f"(the first: {first})."
        )
    model.load_state_dict({key: state[key] for key in report.loaded}, strict=False)


def _classifies(key: str) -> bool:
    """Whether weights like context.core.presence.bias are those of a classifier."""
    return any(part.startswith(CLASSIFIERS) for part in key.split("."))


class Metadata(BaseModel):
    """The metadata of a file: texts in JSON, which anybody may have written."""

    recipe: Json[dict[str, Any]]
    classes: Json[Annotated[tuple[str, ...], Field(min_length=1, max_length=256)]]
    palette: Json[Palette]
    step: Annotated[int, Field(ge=0)]
    score: Json[dict[str, float]]

    @model_validator(mode="after")
    def _one_colour_each(self) -> Self:
        if len(self.palette) != len(self.classes):
            raise ValueError(f"{len(self.palette)} colours for {len(self.classes)} classes")
        return self

    @classmethod
    def read(cls, texts: Mapping[str, str], source: Path) -> Self:
        try:
            return cls.model_validate(texts)
        except ValidationError as error:
            reason = _first(error)
            raise CheckpointError(f"{source} does not say what network it is: {reason}.") from error


def _first(error: ValidationError) -> str:
    """What is wrong, without the text itself, which may be long."""
    problem = error.errors()[0]
    if not problem["loc"]:
        return problem["msg"].removeprefix("Value error, ")
    how = "is missing" if problem["type"] == "missing" else "cannot be used"
    return f"its {problem['loc'][0]} {how}"


def _metadata(path: Path) -> dict[str, str]:
    try:
        with safe_open(path, "pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"cannot read {path}: {error}.") from error
    if metadata.get("format") != str(FORMAT):
        raise CheckpointError(
            f"{path} was not written by a training run: it does not say what network it is."
        )
    return metadata
