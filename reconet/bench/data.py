"""Measure how fast training images are loaded, and how much of that time is decoding.

    reconet   read, augment and batch, as training does
    decode    read the same files by the same functions, and do nothing with them

Both run in turns. The images are as large and as detailed as those of PASCAL VOC.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import truediv
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from PIL import Image
from torch.utils import data as torch_data

from reconet.data.dataset import DatasetInfo, FileDataset, Pair
from reconet.data.images.read import read_mask
from reconet.data.loader import PREFETCH, Failure, batches, produce
from reconet.data.order import BatchOrder, Slot
from reconet.data.scenes.generate import CLASSES, scene
from reconet.data.transforms import Augmentation

AUGMENTATION = Augmentation(crop=(512, 512), base_size=520, scale=(0.5, 2.0))
SIZE = (375, 500)
QUALITY = 95
Pipeline = Callable[[FileDataset, BatchOrder, int], Iterator[object]]  # the last is workers


@dataclass(frozen=True, kw_only=True)
class DataBench:
    """The speed of one pipeline with one number of workers."""

    name: str
    workers: int
    samples_per_second: float
    of_decode: float  # its speed as a fraction of that of decoding, with as many workers


def bench_data(
    *,
    images: int = 48,
    batch: int = 16,
    steps: int = 12,
    rounds: int = 5,
    workers: Sequence[int] = (1, 2),
) -> list[DataBench]:
    """Run the pipeline and decoding alone. Speeds and ratios are medians over the rounds."""
    results = []
    for count in workers:
        rates = measure_rates(
            {"reconet": load, "decode": decode},
            images=images,
            batch=batch,
            steps=steps,
            rounds=rounds,
            workers=count,
        )
        results += [
            DataBench(
                name=name,
                workers=count,
                samples_per_second=median(values),
                of_decode=median(map(truediv, values, rates["decode"])),
            )
            for name, values in rates.items()
        ]
    return results


def measure_rates(
    pipelines: Mapping[str, Pipeline],
    *,
    images: int = 48,
    batch: int = 16,
    steps: int = 12,
    rounds: int = 5,
    workers: int = 1,
) -> dict[str, list[float]]:
    """Run pipelines in turns. Return the images a second of each in each round."""
    unmeasured = PREFETCH * workers + 4  # batches until every buffer has been used once
    rates: dict[str, list[float]] = {name: [] for name in pipelines}
    with TemporaryDirectory(prefix="reconet-bench-") as folder:
        dataset = write_images(Path(folder), images)
        for seed in range(rounds):
            for name, run in pipelines.items():
                order = BatchOrder(
                    images=images,
                    seed=seed,
                    batch=batch,
                    start=0,
                    steps=steps + unmeasured,
                    rank=0,
                    processes=1,
                )
                arrivals = [time.perf_counter() for _ in run(dataset, order, workers)]
                measured = arrivals[unmeasured - 1 :]
                seconds = (measured[-1] - measured[0]) / (len(measured) - 1)
                rates[name].append(batch / seconds)
    return rates


def load(dataset: FileDataset, order: BatchOrder, workers: int) -> Iterator[object]:
    """Load batches as training does."""
    return batches(
        dataset,
        AUGMENTATION,
        seed=order.seed,
        batch=order.batch,
        steps=order.steps,
        workers=workers,
        keep=False,
    )


@dataclass(frozen=True)
class Decoder(torch_data.Dataset[int | Failure]):
    """A dataset that reads the images of a batch and returns only their number."""

    dataset: FileDataset

    def __getitem__(self, slots: list[Slot]) -> int | Failure:
        return len([self.dataset[slot.image].name for slot in slots])


def decode(dataset: FileDataset, order: BatchOrder, workers: int) -> Iterator[object]:
    """Read the images of each batch, and do nothing with them."""
    return produce(Decoder(dataset), order, workers)


def write_images(folder: Path, count: int) -> FileDataset:
    """Write scenes of about 70 kB (JPEG) and masks (palette PNG), as PASCAL VOC has them."""
    pairs = []
    for index in range(count):
        image_hwc, label_hw = scene(0, index, SIZE)
        name = f"{index:04d}"
        pair = Pair(name, folder / f"{name}.jpg", folder / f"{name}.png")
        Image.fromarray(image_hwc).save(pair.image, quality=QUALITY)
        label = Image.fromarray(label_hw)
        label.putpalette(bytes(range(256)) * 3)
        label.save(folder / f"{name}.png")
        pairs.append(pair)
    info = DatasetInfo(name="bench", title="", classes=CLASSES, palette=(), splits={})
    return FileDataset(info=info, split="train", pairs=pairs, read_label=read_mask)
