"""Load batches. They depend on (seed, step) alone, so there is no state to save.

A step takes `batch` images, whatever the number of processes. A `slot` is the place of an image
in that total batch. Which image is in a slot depends on (seed, epoch) alone, and how it is
augmented on (seed, step, slot) alone. So a restart continues with the right batch, even with
other numbers of workers or processes.

    epoch  = step // (images // batch)      the last, incomplete batch of an epoch is not used
    slots of process r of w                   [r * batch / w, (r + 1) * batch / w)

Worker processes read and augment. Each makes whole batches, in shared memory that is reused:
fresh shared memory costs about a third of the time to decode an image. A broken image is a
DataError that names it, or, with on_error="skip", a void crop in its slot. Order and shapes do
not change.
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
from reconet.data.order import AUGMENT, BatchOrder, Slot, random_stream
from reconet.data.transforms import Augmentation, crop_into, void_crop
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

    @property
    def inputs(self) -> Tensor:
        """Return what the network reads."""
        return self.image_bchw


class Skipped(NamedTuple):
    """An image that could not be read, and why."""

    name: str
    reason: str


class Failure(NamedTuple):
    """An error in a worker, as a value: DataLoader would wrap an exception in text."""

    text: str


def batches(
    dataset: Dataset,
    augmentation: Augmentation,
    *,
    seed: int,
    batch: int,
    steps: int,
    start: int = 0,
    rank: int = 0,
    processes: int = 1,
    workers: int = 0,
    on_error: OnError = "raise",
    keep: bool = True,
    pin: bool = False,
) -> Iterator[Batch]:
    """Yield the batches of steps `start` to `steps` - 1 for process `rank` of `processes`.

    With keep=False a batch is not copied. Its pixels last until the next batch but one is
    requested, which is enough for a training step and saves a third of the time. With pin=True it
    is copied into pinned memory, from which a GPU fetches it without waiting.
    """
    order = BatchOrder(
        images=len(dataset),
        seed=seed,
        batch=batch,
        start=start,
        steps=steps,
        rank=rank,
        processes=processes,
    )
    buffers = Buffers.make(order, augmentation, workers)
    blank = void_crop("", augmentation)
    maker = BatchMaker(dataset, augmentation, seed, on_error, buffers, blank)
    return (buffers.take(header, keep, pin) for header in produce(maker, enumerate(order), workers))


def samples(
    dataset: Dataset,
    *,
    rank: int = 0,
    processes: int = 1,
    workers: int = 0,
    on_error: OnError = "raise",
) -> Iterator[Sample | Skipped]:
    """Yield whole images in order. Over all processes each image comes exactly once.

    With on_error="skip" a broken image comes as a Skipped, so that it can be counted.
    """
    return produce(SampleReader(dataset, on_error), range(rank, len(dataset), processes), workers)


class BatchHeader(NamedTuple):
    """A batch without its pixels, which are in the buffers."""

    number: int  # counted from the first batch that this loader made
    step: int
    names: tuple[str, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class Buffers:
    """Memory for the batches that are being made. Batch n goes to place n modulo their number.

    When DataLoader returns a batch it has requested at most PREFETCH * workers later ones. With
    three places more, a batch that is not copied outlives the request for the next.
    """

    image_nbhwc: Tensor
    label_nbhw: Tensor

    @classmethod
    def make(cls, order: BatchOrder, augmentation: Augmentation, workers: int) -> "Buffers":
        places = PREFETCH * workers + 3
        shape = (places, order.batch // order.processes, *augmentation.crop)
        image_nbhwc = torch.empty((*shape, 3), dtype=torch.uint8)
        label_nbhw = torch.empty(shape, dtype=torch.uint8)
        if workers:
            need_shared_memory(4 * math.prod(shape), workers)
            image_nbhwc.share_memory_()
            label_nbhw.share_memory_()
        return cls(image_nbhwc, label_nbhw)

    def take(self, header: BatchHeader, keep: bool, pin: bool) -> Batch:
        """Return a batch with its pixels, copied or not."""
        image_bhwc, label_bhw = (array[header.number % len(array)] for array in self)
        if keep or pin:
            image_bhwc, label_bhw = copy_pixels(image_bhwc, pin), copy_pixels(label_bhw, pin)
        image_bchw = image_bhwc.permute(0, 3, 1, 2)
        return Batch(header.step, image_bchw, label_bhw, header.names, header.skipped)

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.image_nbhwc, self.label_nbhw))


def copy_pixels(tensor: Tensor, pin: bool) -> Tensor:
    """Copy a tensor, into pinned memory or not.

    numpy copies with one thread. All threads of torch would take the cores from the workers.
    """
    result = torch.empty_like(tensor, pin_memory=pin)
    np.copyto(result.numpy(), tensor.numpy())
    return result


def need_shared_memory(size: int, workers: int, mount: str = "/dev/shm") -> None:
    """Raise an error if shared memory is too small. Containers often have 64 MB.

    Without this check the process would be killed without a message.
    """
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
class BatchMaker(torch_data.Dataset[BatchHeader | Failure]):
    """Turns the slots of a step into a batch, in a worker or in the main process."""

    dataset: Dataset
    augmentation: Augmentation
    seed: int
    on_error: OnError
    buffers: Buffers
    blank: Sample  # a crop that is nothing but padding

    def __getitem__(self, key: tuple[int, list[Slot]]) -> BatchHeader | Failure:
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
                size = crop_into(crop, sample, self.augmentation, rng)
            pad(crop, self.blank, size)
            names.append(crop.name)
        return BatchHeader(number, slots[0].step, tuple(names), tuple(skipped))


@dataclass(frozen=True)
class SampleReader(torch_data.Dataset[Sample | Skipped | Failure]):
    """Reads one whole image."""

    dataset: Dataset
    on_error: OnError

    def __getitem__(self, index: int) -> Sample | Skipped | Failure:
        return read(self.dataset, index, self.on_error)


def read(dataset: Dataset, index: int, on_error: OnError) -> Sample | Skipped | Failure:
    """Read one sample. Only a broken image can be skipped: a missing extra concerns all images."""
    try:
        return dataset[index]
    except ReconetError as error:
        name, reason = dataset.name(index), str(error)
        if isinstance(error, DataError) and on_error == "skip":
            return Skipped(name, reason)
        return Failure(reason if name in reason else f"{name}: {reason}")


def pad(crop: Sample, blank: Sample, size: tuple[int, int]) -> None:
    """Fill the rest of a crop, at the right and below, where the image has `size`.

    The padding is copied from a blank crop: numpy copies rows much faster than it repeats one
    colour.
    """
    height, width = size
    for part, empty in ((crop.image_hwc, blank.image_hwc), (crop.label_hw, blank.label_hw)):
        part[height:] = empty[height:]
        part[:height, width:] = empty[:height, width:]


def produce(
    maker: torch_data.Dataset[T | Failure], keys: Iterable[object], workers: int
) -> Iterator[T]:
    """Make an item of each key, in order. Workers make them ahead of time."""
    loader = torch_data.DataLoader(
        maker,
        batch_size=None,  # a key is a whole batch
        sampler=keys,
        num_workers=workers,
        prefetch_factor=PREFETCH if workers else None,
        collate_fn=_unchanged,
        worker_init_fn=start_worker,
        generator=torch.Generator(),  # DataLoader would take a number from the default one
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
    """Iterate over a loader without torch's signal handler for workers that die.

    The handler raises an error wherever the main process is. In the middle of an optimiser step
    that would leave the weights half updated. The loader notices the death itself, some seconds
    later, while it waits for an item.
    """
    handler = signal.getsignal(signal.SIGCHLD)
    items = iter(loader)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGCHLD, handler)
    return items


def _unchanged(item: T) -> T:
    return item


def start_worker(number: int) -> None:
    """Turn off the threads of cv2: the workers are the parallelism."""
    cv2.setNumThreads(0)
