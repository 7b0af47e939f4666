"""Tell what a training will do, how long it takes, and whether memory and disk will do."""

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import torch

from reconet.cost import SMALLEST_INPUT, model_cost
from reconet.cost.counter import count_parameters
from reconet.data.dataset import Dataset
from reconet.engine.loop import State
from reconet.errors import OutputError, TrainingError
from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes
from reconet.system.progress import Progress
from reconet.system.readable import readable_seconds

TIMED_STEPS = 5  # enough for a guess; the first step is slow and does not count
TIMED_SECONDS = 20.0  # but nobody waits longer for it, if a step takes long
WORTH_TELLING = 30.0  # seconds: a shorter training is over before the line is read


def summarise(
    recipe: Recipe, model: Segmenter, train_set: Dataset, val_set: Dataset, steps: int
) -> dict[str, Any]:
    """Return what a training will do, as values for the log."""
    return {
        "dataset": recipe.data.title,
        "train_images": len(train_set),
        "val_images": len(val_set),
        "classes": len(train_set.info.classes),
        "network": recipe.model.title,
        "parameters": count_parameters(model),
        "weights": model.weights_from or "none",
        "steps": steps,
        "batch": recipe.train.batch,
    }


def summary_lines(values: dict[str, Any], start: int) -> list[str]:
    """Write the summary for people."""
    epochs = values["steps"] * values["batch"] / max(1, values["train_images"])
    resumed = f", from step {start:,}" if start else ""
    weights = f"weights loaded: {values['weights']}" if not start else "weights of the checkpoint"
    return [
        f"data: {values['dataset']}, {values['train_images']:,} images to train, "
        f"{values['val_images']:,} to validate, {values['classes']} classes",
        f"network: {values['network']}, {values['parameters'] / 1e6:.2f} M parameters, {weights}",
        f"training: {values['steps']:,} steps of {values['batch']} images{resumed}, "
        f"{epochs:.1f} epochs",
    ]


class Forecast:
    """Tells once, after the first steps, how long the training will take."""

    def __init__(self, steps: int) -> None:
        self._left, self._began, self._timed, self._told = steps, 0.0, 0, False

    def advance(self, progress: Progress) -> dict[str, float]:
        """Count a step. Returns the time left, for the log, when it is told."""
        now = time.monotonic()
        self._left -= 1
        if not self._began:
            self._began = now
            return {}
        self._timed += 1
        seconds = now - self._began
        if self._told or (self._timed < TIMED_STEPS and seconds < TIMED_SECONDS):
            return {}
        self._told, step = True, seconds / self._timed
        left = step * self._left
        if left <= WORTH_TELLING:
            return {}
        progress.note(
            f"time: about {readable_seconds(left)} left at {step:.2g} s a step, without validations"
        )
        return {"seconds_left": round(left), "seconds_a_step": round(step, 3)}


def check_resources(
    directory: Path, recipe: Recipe, state: State, processes: Processes, progress: Progress
) -> None:
    """Check disk and memory before the first step, not after hours.

    The estimate of memory covers weights, gradients and activations, but not the buffers of
    kernels. A start without train.micro_batch that needs more memory than is free is refused: the
    system would kill it. Who sets it decides alone.
    """
    weights = 4 * sum(p.numel() for p in state.model.parameters())
    moments = 2 if recipe.optim.kind == "adamw" else 1
    checkpoint = (1 + moments) * weights * (2 if state.ema else 1)
    disk = shutil.disk_usage(directory).free
    if disk < 2 * checkpoint + weights:
        raise OutputError(
            f"{directory} has {disk / 1e6:.0f} MB free, and a checkpoint of "
            f"{checkpoint / 1e6:.0f} MB is written beside the last one."
        )
    free = free_memory(processes.device)
    if free is None or min(recipe.data.crop) < SMALLEST_INPUT:  # no estimate is possible
        return
    if processes.device.type == "cpu":  # its processes share the memory
        free //= int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    share = recipe.train.batch // processes.size
    images = min(share, recipe.train.micro_batch or share)
    fixed = weights * (2 + moments + (state.ema is not None))  # gradients, moments, running mean
    half = 1 if recipe.train.precision == "fp32" else 2
    image = model_cost(state.model, recipe.data.crop).training_bytes / half
    need = int(images * image) + fixed
    if need > free:
        fits = max(1, int((free - fixed) / image))
        message = (
            f"a step may not fit: it needs about {need / 1e9:.1f} GB, {free / 1e9:.1f} GB are free"
        )
        if images == 1:
            progress.note(f"{message}.")
            return
        message += f"; set train.micro_batch={fits}."
        if state.step == 0 and recipe.train.micro_batch is None:
            raise TrainingError(f"{message} Or a smaller data.crop.")
        progress.note(message)


def memory_mb(device: torch.device) -> float:
    """Return the most memory that this process has held so far."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kibibytes
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes of a device, or None if this system does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(x.split()[1]) for x in lines if x.startswith("MemAvailable")), None)
