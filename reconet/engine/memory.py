"""Measure the memory of a training, and check whether memory and disk will do."""

import os
import shutil
import sys
from pathlib import Path

import torch

from reconet.cost import SMALLEST_INPUT, model_cost
from reconet.engine.train import State
from reconet.errors import OutputError, TrainingError
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes
from reconet.system.progress import Progress

ADVICE = "set train.micro_batch="


def check_resources(
    directory: Path, recipe: Recipe, state: State, processes: Processes, progress: Progress
) -> None:
    """Check disk and memory before the first step, not after hours.

    A start without train.micro_batch that needs more memory than is free is refused: the system
    would kill it. Who sets it decides alone.
    """
    weights = 4 * sum(p.numel() for p in state.model.parameters())
    moments = 2 if recipe.optim.kind == "adamw" else 1
    checkpoint = (1 + moments) * weights * (2 if state.ema else 1)
    free = shutil.disk_usage(directory).free
    if free < 2 * checkpoint + weights:
        raise OutputError(
            f"{directory} has {free / 1e6:.0f} MB free, and a checkpoint of "
            f"{checkpoint / 1e6:.0f} MB is written beside the last one."
        )
    warning = memory_warning(recipe, state, processes)
    if warning and state.step == 0 and recipe.train.micro_batch is None and ADVICE in warning:
        raise TrainingError(f"{warning} Or a smaller data.crop.")
    if warning:
        progress.note(warning)


def memory_mb(device: torch.device) -> float:
    """Return the most memory that this process has held so far."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kibibytes
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


def memory_warning(recipe: Recipe, state: State, processes: Processes) -> str | None:
    """Return a warning if a step will probably not fit into memory.

    The estimate covers weights, gradients and activations, but not the buffers of kernels.
    """
    free = free_memory(processes.device)
    if free is None or min(recipe.data.crop) < SMALLEST_INPUT:  # no estimate is possible
        return None
    share = recipe.train.batch // processes.size
    images = min(share, recipe.train.micro_batch or share)
    half = 1 if recipe.train.precision == "fp32" else 2
    cost = model_cost(state.model, recipe.data.crop)
    weights = 4 * sum(p.numel() for p in state.model.parameters())
    moments = 2 if recipe.optim.kind == "adamw" else 1
    fixed = weights * (2 + moments + (state.ema is not None))  # gradients, moments, running mean
    need = images * cost.training_bytes // half + fixed
    if processes.device.type == "cpu":  # its processes share the memory
        free //= int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if need <= free:
        return None
    message = (
        f"a step may not fit: it needs about {need / 1e9:.1f} GB, {free / 1e9:.1f} GB are free"
    )
    if images == 1:
        return f"{message}."
    fits = max(1, int((free - fixed) / (cost.training_bytes / half)))
    return f"{message}; {ADVICE}{fits}."


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes of a device, or None if this system does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(x.split()[1]) for x in lines if x.startswith("MemAvailable")), None)
