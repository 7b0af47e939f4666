"""Train a tiny network on one fixed batch, in this process."""

from collections.abc import Iterator

import torch
from torch import Tensor

from reconet.data.loader import Batch
from reconet.engine import State, make_state, read_losses, training_steps
from reconet.recipes import Recipe
from reconet.system.distributed import Processes
from tests.factories import tiny_recipe

__all__ = ["ALONE", "CLASSES", "Batch", "Processes"]

ALONE = Processes.single(torch.device("cpu"))
CLASSES = 5


def recipe(*settings: str) -> Recipe:
    return tiny_recipe("train.steps=40", *settings)


def fixed_batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    image = torch.randint(0, 256, (4, 3, 64, 64), dtype=torch.uint8, generator=generator)
    coarse = torch.randint(0, CLASSES, (4, 8, 8), generator=generator).byte()
    return image, coarse.repeat_interleave(8, 1).repeat_interleave(8, 2)


def batches(steps: int, start: int = 0) -> Iterator[Batch]:
    image, label = fixed_batch()
    for step in range(start, steps):
        yield Batch(step, image, label, ("a", "b", "c", "d"), ())


def state_of(chosen: Recipe) -> State:
    torch.manual_seed(0)
    return make_state(chosen, CLASSES, ALONE, fresh=True)


def run(state: State, chosen: Recipe, steps: int, start: int = 0) -> list[float]:
    done = list(training_steps(state, batches(steps, start), chosen, 40, ALONE))
    return read_losses(done, ALONE)
