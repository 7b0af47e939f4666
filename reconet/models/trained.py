"""A trained network in one file, with all that one needs to know to use it.

safetensors with metadata: the recipe, the classes, their colours, the score. Nothing in it is run.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as safetensors_bytes
from torch import Tensor

from reconet.errors import CheckpointError
from reconet.files import write_atomic
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.weights import compare, read_tensors
from reconet.recipe import Recipe, dump, validate

FORMAT = 1
BEST = "best.safetensors"  # in a run directory
Palette = tuple[tuple[int, int, int], ...]


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
        "recipe": dump(recipe),
        "classes": json.dumps(classes),
        "palette": json.dumps(palette),
        "step": str(step),
        "score": json.dumps(score),
    }
    tensors = {key: value.cpu().contiguous() for key, value in model.state_dict().items()}
    write_atomic(path, lambda file: file.write(safetensors_bytes(tensors, metadata)))


def load_trained(source: Path) -> Trained:
    """The network of a run directory or of a .safetensors file that a run has written."""
    path = source / BEST if source.is_dir() else source
    if not path.is_file():
        raise CheckpointError(f"no trained network at {path}; a run writes it at its validations.")
    metadata = _metadata(path)
    recipe = validate(
        {k: v for k, v in json.loads(metadata["recipe"]).items() if k != "format"}, str(path)
    )
    classes = tuple(json.loads(metadata["classes"]))
    model = build_model(recipe, len(classes), pretrained=False)
    put_weights(model, read_tensors(path), path)
    return Trained(
        model=model.eval(),
        recipe=recipe,
        classes=classes,
        palette=tuple(tuple(colour) for colour in json.loads(metadata["palette"])),
        step=int(metadata["step"]),
        score=json.loads(metadata["score"]),
    )


def put_weights(
    model: Segmenter, state: Mapping[str, Tensor], source: Path, *, other_classes: bool = False
) -> tuple[str, ...]:
    """Give a network its weights, all of them; with `other_classes` its classifiers may stay.

    Returns the names of the weights that stayed as they were.
    """
    report = compare(model.state_dict(), state)
    left = tuple(k for k in report.other_shape if ".".join(k.split(".")[:-1]).endswith("classify"))
    other_shape = [key for key in report.other_shape if not (other_classes and key in left)]
    if report.missing or report.unexpected or other_shape:
        first = [*report.missing, *report.unexpected, *other_shape][0]
        raise CheckpointError(
            f"{source} holds another network: {len(report.missing)} weights missing, "
            f"{len(report.unexpected)} unexpected, {len(other_shape)} of another shape "
            f"(the first: {first})."
        )
    model.load_state_dict({key: state[key] for key in report.loaded}, strict=False)
    return left


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
