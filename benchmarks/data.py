"""Compare the training pipeline with one that opens, resizes and crops images with Pillow.

    python -m benchmarks.data

Both make the same random choices. They take turns, with 1 and with 2 worker processes.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from operator import truediv
from statistics import median

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils import data as torch_data

from reconet.bench.data import AUGMENTATION, load, measure_rates
from reconet.data.dataset import FileDataset
from reconet.data.order import BatchOrder, Slot, random_stream
from reconet.types import IGNORE, MEAN_COLOUR


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


def load_with_pillow(dataset: FileDataset, order: BatchOrder, workers: int) -> Iterator[object]:
    """Load batches by DataLoader, which stacks them in the worker, in shared memory."""
    loader = torch_data.DataLoader(
        PillowCrops(dataset), batch_sampler=order, num_workers=workers, generator=torch.Generator()
    )
    yield from loader


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description="The training pipeline against Pillow.")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    rows = []
    for workers in (1, 2):
        rates = measure_rates(
            {"reconet": load, "pillow": load_with_pillow}, rounds=rounds, workers=workers
        )
        rows += [
            {
                "name": name,
                "workers": workers,
                "samples_per_second": median(values),
                "over_pillow": median(map(truediv, values, rates["pillow"])),
            }
            for name, values in rates.items()
        ]
    print(json.dumps({"pipelines": rows}, indent=2))


if __name__ == "__main__":
    main()
