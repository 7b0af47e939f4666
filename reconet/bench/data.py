"""Measure how fast training images are loaded, by three pipelines that run in turns.

    reconet   read, augment and batch, as training does
    decode    read the same files by the same functions, and do nothing with them
    pillow    what a usual loader does: open with Pillow, flip, resize the whole image, pad, crop

The images are as large and as detailed as those of PASCAL VOC. There are 1 and 2 worker processes.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import truediv
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils import data as torch_data

from reconet.data.dataset import DatasetInfo, FileDataset, Pair
from reconet.data.images.read import read_mask
from reconet.data.loader import PREFETCH, Failure, batches, produce
from reconet.data.order import BatchOrder, Slot, random_stream
from reconet.data.transforms import Augmentation
from reconet.types import IGNORE, MEAN_COLOUR

AUGMENTATION = Augmentation(crop=(512, 512), base_size=520, scale=(0.5, 2.0))
SIZE = (375, 500)
CLASSES = 21


@dataclass(frozen=True, kw_only=True)
class DataBench:
    """The speed of one pipeline with one number of workers."""

    name: str
    workers: int
    samples_per_second: float
    of_decode: float  # its speed as a fraction of that of decoding, with as many workers
    over_pillow: float  # its speed as a multiple of that of Pillow, with as many workers


def bench_data(
    *,
    images: int = 48,
    batch: int = 16,
    steps: int = 12,
    rounds: int = 5,
    workers: Sequence[int] = (1, 2),
) -> list[DataBench]:
    """Run all pipelines in turns. Speeds and ratios are medians over the rounds."""
    with TemporaryDirectory(prefix="reconet-bench-") as folder:
        dataset = write_images(Path(folder), images)
        return [
            result for count in workers for result in _compare(dataset, batch, steps, rounds, count)
        ]


def _compare(
    dataset: FileDataset, batch: int, steps: int, rounds: int, workers: int
) -> list[DataBench]:
    unmeasured = PREFETCH * workers + 4  # batches until every buffer has been used once
    rates: dict[str, list[float]] = {}
    for seed in range(rounds):
        for name, stream in _pipelines(dataset, seed, batch, steps + unmeasured, workers).items():
            seconds = _seconds_per_batch(stream, unmeasured)
            rates.setdefault(name, []).append(batch / seconds)
    return [
        DataBench(
            name=name,
            workers=workers,
            samples_per_second=median(values),
            of_decode=median(map(truediv, values, rates["decode"])),
            over_pillow=median(map(truediv, values, rates["pillow"])),
        )
        for name, values in rates.items()
    ]


def _pipelines(
    dataset: FileDataset, seed: int, batch: int, steps: int, workers: int
) -> dict[str, Iterator[object]]:
    """Make the pipelines. None starts before its first batch is requested."""
    order = BatchOrder(
        images=len(dataset), seed=seed, batch=batch, start=0, steps=steps, rank=0, processes=1
    )
    return {
        "reconet": batches(
            dataset,
            AUGMENTATION,
            seed=seed,
            batch=batch,
            steps=steps,
            workers=workers,
            keep=False,  # as in training
        ),
        "decode": produce(Decoder(dataset), order, workers),
        "pillow": pillow_batches(dataset, order, workers),
    }


def _seconds_per_batch(stream: Iterable[object], unmeasured: int) -> float:
    """Return the time of a batch, without the first ones, in which the workers start."""
    arrivals = [time.perf_counter() for _ in stream][unmeasured - 1 :]
    return (arrivals[-1] - arrivals[0]) / (len(arrivals) - 1)


@dataclass(frozen=True)
class Decoder(torch_data.Dataset[int | Failure]):
    """A dataset that reads the images of a batch and returns only their number."""

    dataset: FileDataset

    def __getitem__(self, slots: list[Slot]) -> int | Failure:
        return len([self.dataset[slot.image].name for slot in slots])


@dataclass(frozen=True)
class PillowCrops(torch_data.Dataset[tuple[Tensor, Tensor]]):
    """A dataset that resizes, pads and crops whole images, with the same random choices."""

    dataset: FileDataset

    def __getitem__(self, slot: Slot) -> tuple[Tensor, Tensor]:
        rng = random_stream(slot.step, slot.slot)
        _, image_path, mask_path = self.dataset.pairs[slot.image]
        assert mask_path is not None
        image = Image.open(image_path).convert("RGB")
        label: Image.Image = Image.open(mask_path)
        if rng.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            label = label.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        zoom = AUGMENTATION.base_size * rng.uniform(*AUGMENTATION.scale) / max(image.size)
        size = round(image.width * zoom), round(image.height * zoom)
        image = image.resize(size, Image.Resampling.BILINEAR)
        label = label.resize(size, Image.Resampling.NEAREST)
        height, width = AUGMENTATION.crop
        border = (0, 0, max(0, width - size[0]), max(0, height - size[1]))
        if any(border):
            image = ImageOps.expand(image, border, fill=MEAN_COLOUR)
            label = ImageOps.expand(label, border, fill=IGNORE)
        left = int(rng.integers(image.width - width + 1))
        top = int(rng.integers(image.height - height + 1))
        box = (left, top, left + width, top + height)
        image_hwc, label_hw = np.array(image.crop(box)), np.array(label.crop(box))
        return torch.from_numpy(image_hwc).permute(2, 0, 1), torch.from_numpy(label_hw)


def pillow_batches(dataset: FileDataset, order: BatchOrder, workers: int) -> Iterator[object]:
    """Load batches by DataLoader, which stacks them in the worker, in shared memory."""
    loader = torch_data.DataLoader(
        PillowCrops(dataset), batch_sampler=order, num_workers=workers, generator=torch.Generator()
    )
    yield from loader


def write_images(folder: Path, count: int) -> FileDataset:
    """Write images of about 80 kB (JPEG) and masks (palette PNG), as PASCAL VOC has them."""
    pairs = []
    for index in range(count):
        image_hwc, label_hw = make_image(random_stream(index))
        name = f"{index:04d}"
        pair = Pair(name, folder / f"{name}.jpg", folder / f"{name}.png")
        Image.fromarray(image_hwc).save(pair.image, quality=90)
        label = Image.fromarray(label_hw)
        label.putpalette(bytes(range(256)) * 3)
        label.save(folder / f"{name}.png")
        pairs.append(pair)
    names = tuple(f"class {index}" for index in range(CLASSES))
    info = DatasetInfo(name="bench", title="", classes=names, palette=(), splits={})
    return FileDataset(info=info, split="train", pairs=pairs, read_label=read_mask)


def make_image(rng: np.random.Generator) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Draw objects on a background, with detail at every scale, as photographs have."""
    height, width = SIZE
    label_hw = np.zeros(SIZE, np.uint8)
    image_hwc = rng.uniform(60, 190, 3) + texture(rng)
    for _ in range(rng.integers(2, 7)):
        mask_hw = np.zeros(SIZE, np.uint8)
        angle_n = np.sort(rng.uniform(0, 2 * np.pi, 40))
        radius_n = rng.uniform(25, 110) * (1 + 0.25 * np.cos(3 * angle_n + rng.uniform(0, 6)))
        outline_n2 = np.stack([np.cos(angle_n), np.sin(angle_n)], 1) * radius_n[:, None]
        outline_n2 += rng.uniform((0, 0), (width, height))
        points = [outline_n2.astype(np.int32)]
        cv2.fillPoly(mask_hw, points, 1)
        image_hwc[mask_hw > 0] = (rng.uniform(30, 220, 3) + texture(rng))[mask_hw > 0]
        label_hw[mask_hw > 0] = rng.integers(1, CLASSES)
        cv2.polylines(label_hw, points, True, IGNORE, 5)
    return np.clip(image_hwc, 0, 255).astype(np.uint8), label_hw


def texture(rng: np.random.Generator) -> NDArray[np.float64]:
    """Make noise in octaves, weaker where it is finer, mostly of brightness, a little of colour."""
    height, width = SIZE
    result_hwc, decay = np.zeros((height, width, 3)), rng.uniform(0.86, 1.02)
    for octave in range(1, 9):
        grid = (3 * 2**octave // 4 + 1, 2**octave + 1)
        noise_hwc = rng.normal(size=(*grid, 1)) + 0.3 * rng.normal(size=(*grid, 3))
        wide_hwc = cv2.resize(noise_hwc, (width, height), interpolation=cv2.INTER_CUBIC)
        result_hwc += 25 * decay**octave * wide_hwc
    return result_hwc
