"""Check that an export computes what its network does.

The export is opened by its own runtime and compared at three sizes: the training crop, one that is
not square, and a smaller one with two images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from reconet.errors import ExportError
from reconet.export.sample_images import SampleImages, batch_of
from reconet.inference.backends import ExportedNetwork
from reconet.models.layers import resize
from reconet.models.segmenter import Segmenter

# fp32 sums in another order differ by no more than this.
LARGEST_DIFFERENCE = 1e-3
LEAST_AGREEMENT = 0.999


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The difference between an export and its network on images of one size."""

    images: int
    size: tuple[int, int]
    logits: float  # largest difference, in units of the largest logit
    labels: float  # fraction of the pixels with the same label

    @property
    def is_rounding(self) -> bool:
        return self.logits <= LARGEST_DIFFERENCE and self.labels >= LEAST_AGREEMENT

    def __str__(self) -> str:
        return (
            f"{self.images} x {self.size[0]} x {self.size[1]}: logits differ by "
            f"{self.logits:.1e} of the largest, {100 * self.labels:.3f} % of the labels agree"
        )


def compare_with_network(
    opened: ExportedNetwork, model: Segmenter, images: SampleImages
) -> list[Difference]:
    """Compare an export, opened for labels and logits, with the network in torch."""
    info = opened.info
    return [
        compare(opened, model, images, count, size)
        for count, size in shapes(info.network.recipe.data.crop, info.smallest)
    ]


def shapes(crop: tuple[int, int], smallest: int) -> list[tuple[int, tuple[int, int]]]:
    """Return the number of images and their size, for each comparison."""
    height, width = (max(side, smallest) for side in crop)
    wide = (max(smallest, 3 * height // 4 + 1), 5 * width // 4 + 3)
    small = (max(smallest, height // 2 + 5), max(smallest, width // 2))
    return [(1, (height, width)), (1, wide), (2, small)]


@torch.no_grad()
def compare(
    opened: ExportedNetwork,
    model: Segmenter,
    images: SampleImages,
    count: int,
    size: tuple[int, int],
) -> Difference:
    """Compare on `count` images of one size."""
    image_bchw = batch_of(images, count, size)
    label_bhw, logits_bkij = opened(image_bchw)
    true_bkij = model.coarse(image_bchw)
    true_bhw = resize(true_bkij, size).argmax(1)
    if logits_bkij.shape != true_bkij.shape or label_bhw.shape != true_bhw.shape:
        return Difference(images=count, size=size, logits=float("inf"), labels=0.0)
    scale = true_bkij.abs().max().clamp_min(torch.finfo(torch.float32).tiny)
    return Difference(
        images=count,
        size=size,
        logits=((logits_bkij - true_bkij).abs().max() / scale).item(),
        labels=(label_bhw == true_bhw).double().mean().item(),
    )


def refuse_differences(path: Path, differences: Sequence[Difference]) -> None:
    """Raise an error if a difference is larger than rounding explains."""
    wrong = next((one for one in differences if not one.is_rounding), None)
    if wrong is not None:
        raise ExportError(f"{path} does not compute what its network does: {wrong}.")
