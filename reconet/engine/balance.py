"""Weigh classes by how rare they are in the training split: loss.class_weights="balanced".

The weight of class k of K, which has n_k of the N labelled training pixels, is

    w_k = sqrt(N / (K n_k))

so that a class with an average number of pixels has weight 1. A class without a training pixel has
weight 1 too, which no pixel uses. The root is a compromise: docs/losses.md compares it with none
and with the full ratio.

The pixels are counted once, in the masks as they are, and kept in the run directory. A resumed
training reads them there.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import torch

from reconet.data.class_counts import count_classes
from reconet.data.dataset import Dataset
from reconet.errors import DataError
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes
from reconet.system.files import write_text
from reconet.system.progress import Progress
from reconet.system.reading import SETTINGS_BYTES, read_text
from reconet.system.run_files import CLASS_COUNTS

SHOWN = 8  # classes: of more, only the lightest and the heaviest are named


def count_weights(
    recipe: Recipe,
    directory: Path,
    train_set: Dataset,
    processes: Processes,
    progress: Progress,
    *,
    resume: bool,
) -> tuple[float, ...]:
    """Return the weights of the classes, from counts that a resumed run finds in its directory."""
    path, classes = directory / CLASS_COUNTS, train_set.info.classes
    pixels_k = processes.run_on_first(lambda: read_counts(path, len(classes)) if resume else None)
    if pixels_k is None:
        with processes.together():  # each process counts in its share of the masks
            counted_k = count_classes(
                train_set,
                range(processes.rank, len(train_set), processes.size),
                workers=recipe.data.workers,
                on_error=recipe.data.on_error,
                progress=progress,
            )
        own_k = torch.from_numpy(counted_k).to(processes.device)
        pixels_k = [int(pixels) for pixels in processes.sum(own_k).tolist()]
        if not any(pixels_k):
            raise DataError(
                f"{train_set.info.name} {train_set.split} has no labelled pixel, so that its "
                "classes cannot be balanced."
            )
        content = json.dumps({"split": train_set.split, "classes": classes, "pixels": pixels_k})
        processes.run_on_first(lambda: write_text(path, content + "\n"))
    weights = balanced_weights(pixels_k)
    order = sorted(range(len(classes)), key=weights.__getitem__)
    named = [f"{classes[k]} {weights[k]:.2g}" for k in order]
    if len(named) > SHOWN:
        named = [*named[: SHOWN // 2], "...", *named[-SHOWN // 2 :]]
    progress.note(f"class weights, balanced: {', '.join(named)}")
    return weights


def balanced_weights(pixels_k: Sequence[int]) -> tuple[float, ...]:
    """Return the weight of each class from its number of pixels."""
    mean = sum(pixels_k) / len(pixels_k)
    return tuple(math.sqrt(mean / pixels) if pixels else 1.0 for pixels in pixels_k)


def read_counts(path: Path, num_classes: int) -> list[int] | None:
    """Read the counts that a training has kept. Broken ones are counted again."""
    try:
        pixels_k = json.loads(read_text(path, limit=SETTINGS_BYTES, within=path.parent))["pixels"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    fits = isinstance(pixels_k, list) and len(pixels_k) == num_classes
    return pixels_k if fits and all(type(n) is int and n >= 0 for n in pixels_k) else None
