"""Build what a training needs from its recipe, and check it before the first step."""

import platform
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import repeat

import torch

from reconet.data import complete_recipe, open_split
from reconet.data.dataset import Dataset, fingerprint, has_labels, read_label
from reconet.data.order import steps_per_epoch
from reconet.data.transforms import Augmentation
from reconet.engine.init_from import start_from
from reconet.engine.optim import Ema, make_optimizer
from reconet.engine.sync_batchnorm import synchronise_batchnorm
from reconet.engine.train import State
from reconet.errors import DataError, RecipeError, TrainingError
from reconet.models.backbone import find_weights
from reconet.models.losses import PIXEL_TERMS, REGION_TERMS, term_weights
from reconet.models.segmenter import Segmenter, build_model, complete_backbone
from reconet.recipes.schema import Loss, Recipe
from reconet.system.distributed import Processes
from reconet.system.hardware import make_bf16_safe, set_deterministic
from reconet.types import IGNORE

# Options of datasets that name places of one machine.
PLACES = ("images", "masks", "pairs", "splits", "title")


def total_steps(recipe: Recipe, images: int) -> int:
    """Return the length of a training on so many images."""
    in_epoch = steps_per_epoch(images, recipe.train.batch)
    return recipe.train.steps or (recipe.train.epochs or 0) * in_epoch


def augmentation(recipe: Recipe) -> Augmentation:
    """Return how the recipe augments its images."""
    return Augmentation.of(recipe.data)


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


def check_start(recipe: Recipe, processes: Processes, *, resume: bool) -> Recipe:
    """Refuse what cannot be trained here, before anything is written or read for long.

    Returns the recipe, complete.
    """
    with processes.together():
        recipe = complete_recipe(recipe)
        check_precision(recipe, processes)
        check_views(recipe)
        check_loss(recipe.loss)
        if not resume and recipe.train.init_from is None and processes.local_rank == 0:
            find_weights(recipe.model)  # on every machine: each may have a cache of its own
        return complete_backbone(recipe)


def open_splits(recipe: Recipe, processes: Processes) -> tuple[Dataset, Dataset]:
    """Open the images to learn from and those to score on. They must be the same everywhere."""
    with processes.together():
        data = recipe.data
        splits = open_split(data, data.train_split), open_split(data, data.val_split)
        check_labels(*splits)
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


def check_labels(*splits: Dataset) -> None:
    """Refuse splits without a labelled pixel. Masks are read until one has some."""
    for split in splits:
        name = f"{split.info.name} {split.split}"
        if not has_labels(split):
            raise DataError(f"{name} has no labels to learn or score by.")
        if all(_is_void(split, index) for index in range(len(split))):
            raise DataError(f"{name} has no labelled pixel to learn or score by: all is void.")


def _is_void(dataset: Dataset, index: int) -> bool:
    try:
        return bool((read_label(dataset, index) == IGNORE).all())
    except DataError:
        return False  # training says what is wrong with it, or leaves it out


def check_views(recipe: Recipe) -> None:
    """Refuse to cache features of a backbone that moves."""
    if recipe.data.views is not None and not recipe.model.frozen:
        raise RecipeError(
            f"data.views={recipe.data.views} caches features of a frozen backbone; "
            "set model.frozen=true, or data.views=null."
        )


def check_loss(loss: Loss) -> None:
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


def check_precision(recipe: Recipe, processes: Processes) -> None:
    precision, device = recipe.train.precision, processes.device.type
    if precision == "fp16" and device == "cpu":
        raise RecipeError("train.precision=fp16 needs a GPU; on a CPU use bf16 or fp32.")
    if precision == "bf16" and device == "cpu" and not make_bf16_safe():
        raise TrainingError("this CPU cannot compute in bf16; use train.precision=fp32.")
