"""Tell at the start of a training what it will do, and soon after how long it will take."""

import time
from typing import Any

from reconet.cost.counter import count_parameters
from reconet.data.dataset import Dataset
from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Recipe
from reconet.system.progress import Progress
from reconet.system.readable import readable_seconds

TIMED_STEPS = 5  # enough for a guess; the first step is slow and does not count
TIMED_SECONDS = 20.0  # but nobody waits longer for it, if a step takes long
WORTH_TELLING = 30.0  # seconds: a shorter training is over before the line is read


def summarise_start(
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


def start_lines(values: dict[str, Any], start: int) -> list[str]:
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
        """Count a step, and tell the time left as soon as it can be guessed.

        Returns what was told, for the log.
        """
        now = time.monotonic()
        self._left -= 1
        if self._told:
            return {}
        if not self._began:
            self._began = now
            return {}
        self._timed += 1
        seconds = now - self._began
        if self._timed < TIMED_STEPS and seconds < TIMED_SECONDS:
            return {}
        self._told, step = True, seconds / self._timed
        left = step * self._left
        if left <= WORTH_TELLING:
            return {}
        progress.note(
            f"time: about {readable_seconds(left)} left at {step:.2g} s a step, without validations"
        )
        return {"seconds_left": round(left), "seconds_a_step": round(step, 3)}
