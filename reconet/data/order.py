"""Decide which image goes into which slot of which step, from (seed, step) alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reconet.errors import RecipeError

ORDER, AUGMENT = 0, 1  # purposes of random numbers; they keep the streams apart


class Slot(NamedTuple):
    """One image of one step."""

    step: int
    slot: int
    image: int  # its index in the dataset


def steps_per_epoch(images: int, batch: int) -> int:
    """Return the number of full batches in an epoch. There must be one."""
    if images < batch:
        raise RecipeError(
            f"train.batch={batch} needs at least as many images, and there are {images}; "
            f"try train.batch={max(1, images)}."
        )
    return images // batch


def permutation(images: int, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the order of the images in an epoch."""
    return random_stream(ORDER, seed, epoch).permutation(images)


def random_stream(*key: int) -> np.random.Generator:
    """Return a generator that depends on the key and on nothing else."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))


@dataclass(frozen=True, kw_only=True)
class BatchOrder:
    """The slots of every step, for one process. Iterating gives one list of slots per step."""

    images: int
    seed: int
    batch: int
    start: int
    steps: int
    rank: int
    processes: int

    def __post_init__(self) -> None:
        if self.batch % self.processes:
            raise RecipeError(
                f"train.batch={self.batch} cannot be shared by {self.processes} processes; "
                f"try train.batch={self.processes * max(1, round(self.batch / self.processes))}."
            )
        steps_per_epoch(self.images, self.batch)

    def __iter__(self) -> Iterator[list[Slot]]:
        in_epoch = steps_per_epoch(self.images, self.batch)
        share = self.batch // self.processes
        slots = range(self.rank * share, (self.rank + 1) * share)
        epoch, order_n = -1, np.empty(0, np.int64)
        for step in range(self.start, self.steps):
            if step // in_epoch != epoch:
                epoch = step // in_epoch
                order_n = permutation(self.images, seed=self.seed, epoch=epoch)
            first = step % in_epoch * self.batch
            yield [Slot(step, slot, int(order_n[first + slot])) for slot in slots]
