"""Batches as a pure function of (seed, step): nothing to save, nothing to fast-forward.

A step takes `batch` images, whatever the number of processes; `slot` is the place of an image
in that total batch. Which image is in a slot depends on (seed, epoch) alone, and how it is
augmented on (seed, step, slot) alone. So the first batch after a restart, with other workers or
over other processes, is the batch that would have come anyway.

    epoch  = step // (images // batch)      the last, incomplete batch of an epoch is not used
    slots of process r of w                   [r * batch / w, (r + 1) * batch / w)

Worker processes read and augment; each makes whole batches, into shared memory that is used over
and over (fresh shared memory costs about a third of what decoding an image does). A broken image
is a DataError that names it, or, with on_error="skip", a void crop in its slot: order and shapes
stay as they were.
"""

import math
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.utils import data as torch_data

from reconet.data.dataset import Dataset, Sample
from reconet.data.order import AUGMENT, Plan, Slot, random_stream
from reconet.data.transforms import Geometry, cut, void
from reconet.errors import DataError, ReconetError, first_line

T = TypeVar("T")
OnError = Literal["raise", "skip"]
PREFETCH = 2  # batches that each worker may be ahead


class Batch(NamedTuple):
    """One process's share of a step."""

    step: int
    image_bchw: Tensor  # uint8, RGB; in memory the channels are last, as images are decoded
    label_bhw: Tensor  # uint8
    names: tuple[str, ...]
    skipped: tuple[str, ...]  # "name: reason" for each image that became a void crop


class Skipped(NamedTuple):
    """An image that could not be read, and why."""

    name: str
    reason: str


class Failure(NamedTuple):
    """An error on its way out of a worker: as a value, because DataLoader would wrap it in text."""

    text: str


def batches(
    dataset: Dataset,
    geometry: Geometry,
    *,
    seed: int,
    batch: int,
    steps: int,
    start: int = 0,
    rank: int = 0,
    world: int = 1,
    workers: int = 0,
    on_error: OnError = "raise",
    keep: bool = True,
) -> Iterator[Batch]:
    """The batches of steps `start` to `steps` - 1, as process `rank` of `world` sees them.

    With keep=False a batch is not copied: its pixels last until the next batch but one is asked
    for, which is all that a training step needs and spares a third of the time.
    """
    plan = Plan(
        images=len(dataset),
        seed=seed,
        batch=batch,
        start=start,
        steps=steps,
        rank=rank,
        world=world,
    )
    buffers = Buffers.make(plan, geometry, workers)
    maker = BatchMaker(dataset, geometry, seed, on_error, buffers, void("", geometry))
    return (maker.buffers.take(made, keep) for made in produce(maker, enumerate(plan), workers))


def samples(
    dataset: Dataset,
    *,
    rank: int = 0,
    world: int = 1,
    workers: int = 0,
    on_error: OnError = "raise",
) -> Iterator[Sample | Skipped]:
    """Whole images as they are, each exactly once over all processes, in order.

    With on_error="skip" a broken image is delivered as a Skipped, so that it can be counted.
    """
    return produce(SampleReader(dataset, on_error), range(rank, len(dataset), world), workers)


class Made(NamedTuple):
    """What a worker says about a batch; its pixels are in the buffers."""

    number: int  # counted from the first batch that this loader made
    step: int
    names: tuple[str, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class Buffers:
    """Room for the batches under way, in turn: batch number n goes to place n modulo their count.

    When DataLoader hands out a batch it has asked for at most PREFETCH * workers later ones. With
    three places more, a batch that is not copied outlives the request for the next.
    """

    image_nbhwc: Tensor
    label_nbhw: Tensor

    @classmethod
    def make(cls, plan: Plan, geometry: Geometry, workers: int) -> "Buffers":
        places = PREFETCH * workers + 3
        shape = (places, plan.batch // plan.world, *geometry.crop)
        image_nbhwc = torch.empty((*shape, 3), dtype=torch.uint8)
        label_nbhw = torch.empty(shape, dtype=torch.uint8)
        if workers:
            need_shared_memory(4 * math.prod(shape), workers)
            image_nbhwc.share_memory_()
            label_nbhw.share_memory_()
        return cls(image_nbhwc, label_nbhw)

    def take(self, made: Made, keep: bool) -> Batch:
        # A GPU can fetch only from pinned memory without waiting, which a copy provides.
        copy = copied if keep or torch.cuda.is_available() else as_it_is
        image_bhwc, label_bhw = (copy(array[made.number % len(array)]) for array in self)
        image_bchw = image_bhwc.permute(0, 3, 1, 2)
        return Batch(made.step, image_bchw, label_bhw, made.names, made.skipped)

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.image_nbhwc, self.label_nbhw))


def copied(tensor: Tensor) -> Tensor:
    """A copy in memory of its own, from which a GPU can fetch it without waiting.

    By numpy, with one thread: all of torch's would wake up and take the cores from the workers.
    """
    result = torch.empty_like(tensor, pin_memory=torch.cuda.is_available())
    np.copyto(result.numpy(), tensor.numpy())
    return result


def need_shared_memory(size: int, workers: int, mount: str = "/dev/shm") -> None:
    """Too little of it would kill the process without a word; containers often have 64 MB."""
    if not os.path.isdir(mount):
        return
    status = os.statvfs(mount)
    free = status.f_bavail * status.f_frsize
    if size > free:
        raise DataError(
            f"data.workers={workers} needs {size / 1e6:.0f} MB of shared memory and {mount} has "
            f"{free / 1e6:.0f} MB; give the container more (--shm-size), or set data.workers=0."
        )


@dataclass(frozen=True)
class BatchMaker(torch_data.Dataset[Made | Failure]):
    """Turns the slots of a step into a batch, in a worker or in the main process alike."""

    dataset: Dataset
    geometry: Geometry
    seed: int
    on_error: OnError
    buffers: Buffers
    blank: Sample  # a crop that is nothing but padding

    def __getitem__(self, key: tuple[int, list[Slot]]) -> Made | Failure:
        number, slots = key
        image_bhwc, label_bhw = (array[number % len(array)] for array in self.buffers)
        names, skipped = [], []
        for image_hwc, label_hw, slot in zip(image_bhwc, label_bhw, slots, strict=True):
            sample = read(self.dataset, slot.image, self.on_error)
            if isinstance(sample, Failure):
                return sample
            crop, size = Sample(sample.name, image_hwc.numpy(), label_hw.numpy()), (0, 0)
            if isinstance(sample, Skipped):
                skipped.append(f"{sample.name}: {sample.reason}")
            else:
                rng = random_stream(AUGMENT, self.seed, slot.step, slot.slot)
                size = cut(sample, self.geometry, rng, crop)
            pad(crop, self.blank, size)
            names.append(crop.name)
        return Made(number, slots[0].step, tuple(names), tuple(skipped))


@dataclass(frozen=True)
class SampleReader(torch_data.Dataset[Sample | Skipped | Failure]):
    """Reads one whole image."""

    dataset: Dataset
    on_error: OnError

    def __getitem__(self, index: int) -> Sample | Skipped | Failure:
        return read(self.dataset, index, self.on_error)


def read(dataset: Dataset, index: int, on_error: OnError) -> Sample | Skipped | Failure:
    """Only a broken image can be skipped; a missing extra, say, concerns all of them."""
    try:
        return dataset[index]
    except ReconetError as error:
        name, reason = dataset.name(index), str(error)
        if isinstance(error, DataError) and on_error == "skip":
            return Skipped(name, reason)
        return Failure(reason if name in reason else f"{name}: {reason}")


def pad(crop: Sample, blank: Sample, size: tuple[int, int]) -> None:
    """Fill up what an image of `size` leaves free, at the right and below.

    From a blank crop: numpy copies rows far faster than it repeats one colour.
    """
    height, width = size
    for part, empty in ((crop.image_hwc, blank.image_hwc), (crop.label_hw, blank.label_hw)):
        part[height:] = empty[height:]
        part[:height, width:] = empty[:height, width:]


def produce(
    maker: torch_data.Dataset[T | Failure], keys: Iterable[object], workers: int
) -> Iterator[T]:
    """Make an item of each key, in order, ahead of time and in other processes if there are any."""
    loader = torch_data.DataLoader(
        maker,
        batch_size=None,  # a key is a whole batch
        sampler=keys,
        num_workers=workers,
        prefetch_factor=PREFETCH if workers else None,
        collate_fn=as_it_is,
        worker_init_fn=start_worker,
        generator=torch.Generator(),  # its own: the default one would lose a number to DataLoader
    )
    try:
        for item in _without_alarm(loader) if workers else loader:
            if isinstance(item, Failure):
                raise DataError(item.text)
            yield item
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise DataError(
            "a worker process that reads images died; memory or shared memory (/dev/shm) may be "
            f"full. With data.workers=0 the main process reads them. ({first_line(error)})"
        ) from error


def _without_alarm(loader: torch_data.DataLoader[T]) -> Iterator[T]:
    """Its items, without the handler by which torch raises the death of a worker wherever we are.

    In the middle of an optimiser step that would tear the weights. The loader notices the death
    itself while it waits for an item, some seconds later, and there nothing can be torn.
    """
    handler = signal.getsignal(signal.SIGCHLD)
    items = iter(loader)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGCHLD, handler)
    return items


def as_it_is(item: T) -> T:
    return item


def start_worker(number: int) -> None:
    """Workers are the parallelism: DataLoader gives each one torch thread, and this no cv2 pool."""
    cv2.setNumThreads(0)
