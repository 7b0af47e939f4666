"""Check a recipe, and build what the training loop needs from it, before the first step."""

import json
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import repeat
from pathlib import Path

import torch

from reconet.data import DATASETS, complete_recipe, open_split
from reconet.data.dataset import (
    Dataset,
    check_known,
    fingerprint,
    has_labels,
    read_label,
    read_options,
    title_of,
)
from reconet.data.order import steps_per_epoch
from reconet.engine.checkpoint import run_weights
from reconet.engine.loop import Ema, State, make_optimizer
from reconet.engine.sync_batchnorm import synchronise_batchnorm
from reconet.errors import CheckpointError, DataError, RecipeError, TrainingError, pick, unknown
from reconet.inference import find_network
from reconet.models.backbone import find_weights
from reconet.models.losses import PIXEL_TERMS, REGION_TERMS, term_weights
from reconet.models.segmenter import Segmenter, build_model, check_model, complete_backbone
from reconet.models.trained import put_weights, read_info
from reconet.recipes import validate_recipe
from reconet.recipes.schema import Loss, Model, Recipe
from reconet.system.distributed import Processes
from reconet.system.hardware import make_bf16_safe, set_deterministic
from reconet.system.run_files import BEST
from reconet.types import IGNORE

# Options of datasets that name places of one machine.
PLACES = ("images", "masks", "pairs", "splits", "title")
# Settings that say which tensors a network has.
SHAPES = ("backbone", "stem", "width", "project", "context", "rank", "module")


def check_recipe(recipe: Recipe) -> Recipe:
    """Check all that can be known without opening images, and return the recipe, complete.

    Raises if a name is unknown, an option is wrong, or two settings exclude each other.
    """
    validate_recipe(recipe.model_dump(warnings=False))  # model_copy() of Python checks nothing
    check_model(recipe.model)
    if recipe.data.views is not None and not recipe.model.frozen:
        raise RecipeError(
            f"data.views={recipe.data.views} caches features of a frozen backbone; "
            "set model.frozen=true, or data.views=null."
        )
    _check_loss(recipe.loss)
    entry = pick(DATASETS, recipe.data.name, "dataset")
    with suppress(DataError):  # files of the root may not be there yet: opening a split says so
        recipe = complete_recipe(recipe)
    data, classes = recipe.data, entry.info.classes
    if entry.options is not None:
        classes = getattr(read_options(entry.options, data.options), "classes", classes)
    else:
        check_known(data.options)
    own = data.options.get("splits")
    splits = own if isinstance(own, dict) else entry.info.splits
    for split in (data.train_split, data.val_split):
        if split not in splits and not entry.own_lists:
            raise unknown(f"split of {data.name}", split, splits)
    weights = recipe.loss.class_weights
    if isinstance(weights, tuple) and classes and len(weights) != len(classes):
        raise RecipeError(f"loss.class_weights: {len(weights)} values for {len(classes)} classes.")
    return recipe


def check_start(recipe: Recipe, processes: Processes, *, resume: bool = False) -> Recipe:
    """Refuse what cannot be trained on this machine. Returns the recipe, complete."""
    recipe = check_recipe(recipe)
    precision, device = recipe.train.precision, processes.device.type
    if precision == "fp16" and device == "cpu":
        raise RecipeError("train.precision=fp16 needs a GPU; on a CPU use bf16 or fp32.")
    if precision == "bf16" and device == "cpu" and not make_bf16_safe():
        raise TrainingError("this CPU cannot compute in bf16; use train.precision=fp32.")
    if not resume and recipe.train.init_from is None and processes.local_rank == 0:
        find_weights(recipe.model)  # on every machine: each may have a cache of its own
    return complete_backbone(recipe)


def total_steps(recipe: Recipe, images: int) -> int:
    """Return the length of a training on so many images."""
    in_epoch = steps_per_epoch(images, recipe.train.batch)
    return recipe.train.steps or (recipe.train.epochs or 0) * in_epoch


def make_state(
    recipe: Recipe,
    num_classes: int,
    processes: Processes,
    *,
    fresh: bool,
    fit: Callable[[Segmenter], None] | None = None,
) -> State:
    """Build the network and its optimiser at step 0.

    Pretrained weights are loaded only if `fresh`: a checkpoint would replace them anyway. `fit`
    prepares layers that depend on the data, unless the weights come from another run.
    """
    set_deterministic(recipe.train.deterministic)
    start = recipe.train.init_from
    model = build_model(recipe, num_classes, pretrained=fresh and start is None)
    if fresh and start is not None:
        start_from(model, recipe.model, start)
    model.to(processes.device)
    if fresh and start is None and fit is not None:
        fit(model)
    if recipe.train.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    synchronise_batchnorm(model, processes)
    ema = None if recipe.train.ema is None else Ema(model, recipe.train.ema)
    scaler = torch.amp.GradScaler(processes.device.type, enabled=recipe.train.precision == "fp16")
    optimizer = make_optimizer(model, recipe.optim)
    return State(model=model, optimizer=optimizer, scaler=scaler, ema=ema)


def start_from(model: Segmenter, ours: Model, start: Path) -> None:
    """Put the weights of a run, or of a network by its name, into a network with these settings."""
    path = find_network(start).path
    file, theirs = path / BEST if path.is_dir() else path, None
    if file.suffix == ".safetensors" and file.is_file():
        with suppress(CheckpointError):  # weights alone, or damage that reading them tells
            theirs = read_info(file).recipe.model
    if theirs and theirs.backbone == ours.backbone and theirs.stride_on != ours.stride_on:
        # The tensors of such a ResNet fit, and mean something else.
        raise RecipeError(
            f"{start} was trained with model.stride_on={theirs.stride_on}, not {ours.stride_on}; "
            f"set model.stride_on={theirs.stride_on}."
        )
    try:
        report = put_weights(model, run_weights(path), start, other_classes=True)
    except CheckpointError as error:
        others = ", ".join(_differences(theirs, ours)) if theirs else ""
        raise CheckpointError(f"{error} It has {others}." if others else str(error)) from error
    model.weights_from = f"{start}, {len(report.loaded)} of {len(model.state_dict())} tensors"


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


def open_splits(recipe: Recipe, processes: Processes) -> tuple[Dataset, Dataset]:
    """Open the images to learn from and those to score on. They must be the same everywhere."""
    with processes.together():
        splits = open_labelled(recipe)
        facts = {} if processes.size == 1 else _facts(recipe, splits)
    every = processes.gather((platform.node(), facts))
    first_host, first = every[0]
    for rank, (host, other) in enumerate(every):
        for what, value in other.items():
            if value != first[what]:
                error = DataError(
                    f"{what} of process {rank} on {host} are not those of process 0 on "
                    f"{first_host} ({value} against {first[what]}). Run the same command "
                    "everywhere, with copies of the same files."
                )
                processes.raise_together(error)
    return splits


def _facts(recipe: Recipe, splits: Sequence[Dataset]) -> dict[str, str]:
    """Describe what all processes must have in common. Places of files may differ."""
    settings = recipe.model_dump_json(exclude={"data": {"root", "options", "workers"}})
    meanings = [f"{k}={v}" for k, v in sorted(recipe.data.options.items()) if k not in PLACES]
    facts = {}
    for split in splits:
        classes, images = split.info.classes, map(fingerprint, repeat(split), range(len(split)))
        facts[f"classes of {split.split}"] = f"{len(classes)} classes, {_digest(classes)}"
        facts[f"images of {split.split}"] = f"{len(split)} images, {_digest(images)}"
    return facts | {"settings": _digest([settings, *meanings])}


def _digest(lines: Iterable[str]) -> str:
    return blake2b("\n".join(lines).encode(), digest_size=4).hexdigest()


def open_labelled(recipe: Recipe) -> tuple[Dataset, Dataset]:
    """Open both splits. Each needs a labelled pixel, and masks are read until one has some."""
    data = recipe.data
    splits = open_split(data, data.train_split), open_split(data, data.val_split)
    for split in splits:
        name = title_of(split)
        if not has_labels(split):
            raise DataError(f"{name} has no labels to learn or score by.")
        if all(_is_void(split, index) for index in range(len(split))):
            raise DataError(f"{name} has no labelled pixel to learn or score by: all is void.")
    return splits


def _is_void(dataset: Dataset, index: int) -> bool:
    try:
        return bool((read_label(dataset, index) == IGNORE).all())
    except DataError:
        return False  # training says what is wrong with it, or leaves it out


def _check_loss(loss: Loss) -> None:
    """Refuse a loss without terms, and settings that none of its terms uses."""
    if term_weights(loss, PIXEL_TERMS):
        return
    names = ", ".join(f"loss.{name}" for name in (*PIXEL_TERMS, *REGION_TERMS))
    if not term_weights(loss, REGION_TERMS):
        raise RecipeError(f"the loss has no term; set one of these above 0: {names}.")
    for name in ("ohem", "class_weights"):
        if getattr(loss, name) is not None:
            raise RecipeError(
                f"loss.{name} is for losses of single pixels, and there is none; set "
                f"{' or '.join(f'loss.{term}' for term in PIXEL_TERMS)} above 0, or "
                f"loss.{name}=null."
            )
