"""Start a training from the weights of another network: `train.init_from`."""

import json
from collections.abc import Iterator
from pathlib import Path

from reconet.engine.checkpoint import run_weights
from reconet.errors import CheckpointError, RecipeError
from reconet.inference import find_network
from reconet.models.segmenter import Segmenter
from reconet.models.trained import put_weights, read_info
from reconet.recipes.schema import Model
from reconet.system.run_files import BEST

# Settings that say which tensors a network has.
SHAPES = ("backbone", "stem", "width", "project", "context", "rank", "module")


def start_from(model: Segmenter, settings: Model, start: Path) -> None:
    """Put the weights of a run, or of a network by its name, into a network with these settings."""
    path = find_network(start).path
    theirs = _settings_of(path)
    if theirs is not None and theirs.backbone == settings.backbone:
        _check_strides(theirs, settings, start)
    weights = run_weights(path)
    try:
        report = put_weights(model, weights, start, other_classes=True)
    except CheckpointError as error:
        others = ", ".join(_differences(theirs, settings)) if theirs is not None else ""
        raise CheckpointError(f"{error} It has {others}." if others else str(error)) from error
    model.weights_from = f"{start}, {len(report.loaded)} of {len(model.state_dict())} tensors"


def _settings_of(path: Path) -> Model | None:
    """Read the settings of a network, or return None for a file of weights alone."""
    file = path / BEST if path.is_dir() else path
    if file.suffix != ".safetensors" or not file.is_file():
        return None
    try:
        return read_info(file).recipe.model
    except CheckpointError:
        return None  # weights alone, or a damaged file, which is told when it is read


def _check_strides(theirs: Model, ours: Model, start: Path) -> None:
    """Refuse weights of a ResNet that strides elsewhere: they fit, and mean something else."""
    if theirs.stride_on != ours.stride_on:
        raise RecipeError(
            f"{start} was trained with model.stride_on={theirs.stride_on}, not {ours.stride_on}; "
            f"set model.stride_on={theirs.stride_on}."
        )


def _differences(theirs: Model, ours: Model) -> Iterator[str]:
    """List the settings of another network that differ, as one would set them."""
    for name in SHAPES:
        if getattr(theirs, name) != getattr(ours, name):
            yield f"model.{name}={json.dumps(getattr(theirs, name))}"
    for name, value in theirs.options.items():
        if ours.options.get(name) != value:
            yield f"model.options.{name}={json.dumps(value)}"
    for name in ours.options.keys() - theirs.options.keys():
        yield f"no model.options.{name}"
