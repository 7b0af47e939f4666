"""Measure training steps in fp32 against other ways to train, in turns."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch

from reconet.data import open_dataset
from reconet.data.loader import Batch, batches
from reconet.data.transforms import Augmentation
from reconet.engine import Step, make_state, training_steps
from reconet.errors import TrainingError
from reconet.recipes import find_recipe
from reconet.recipes.overrides import apply_overrides
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes, pick_device
from reconet.system.hardware import make_bf16_safe
from reconet.system.timing import ratios, time_in_turns

MODES = {
    "fp32": [],
    "fp32, channels last": ["train.channels_last=true"],
    "bf16, channels last": ["train.precision=bf16", "train.channels_last=true"],
}


@dataclass(frozen=True, kw_only=True)
class TrainBench:
    """The speed and the losses of training in one way."""

    name: str
    seconds_per_step: float  # median
    images_per_second: float
    over_fp32: float  # speed as a multiple of that of fp32, median over the steps
    losses: tuple[float, ...]  # of every step: all curves should be close


def bench_train(
    *,
    backbone: str = "resnet50",
    size: int = 256,
    batch: int = 2,
    steps: int = 8,
    device: str = "auto",
) -> list[TrainBench]:
    """Train RecoNet on generated images in all ways that there are, one step each in turn."""
    processes = Processes.single(pick_device(device))
    if processes.device.type == "cpu" and not make_bf16_safe():
        raise TrainingError("this CPU cannot compute in bf16.")
    common = [f"model.backbone={backbone}", f"data.crop={size}", f"data.base_size={size}"]
    common += [f"data.options.size=[{size}, {size}]", f"train.batch={batch}", "optim.lr=0.005"]
    common += ["model.width=1", "model.rank=64", f"train.steps={steps + 1}"]
    recipes = {
        name: apply_overrides(find_recipe("scenes/tiny"), [*common, *own])
        for name, own in MODES.items()
    }
    runs = {name: _steps(recipe, processes, steps + 1) for name, recipe in recipes.items()}
    losses: dict[str, list[float]] = {name: [] for name in MODES}

    def step(name: str) -> None:
        losses[name].append(float(next(runs[name]).loss))  # waits for the step

    times = time_in_turns({name: partial(step, name) for name in MODES}, steps)
    return [
        TrainBench(
            name=name,
            seconds_per_step=median(seconds),
            images_per_second=batch / median(seconds),
            over_fp32=median(ratios(times["fp32"], seconds)),
            losses=tuple(losses[name]),
        )
        for name, seconds in times.items()
    ]


def _steps(recipe: Recipe, processes: Processes, steps: int) -> Iterator[Step]:
    torch.manual_seed(0)
    dataset = open_dataset("scenes", "train", None, recipe.data.options)
    state = make_state(recipe, len(dataset.info.classes), processes, fresh=True)
    stream: Iterator[Batch] = batches(
        dataset, Augmentation.of(recipe.data), seed=0, batch=recipe.train.batch, steps=steps
    )
    # Load all images first, so that their loading is not measured.
    return training_steps(state, list(stream), recipe, steps, processes)
