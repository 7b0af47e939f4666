"""Does an export compute what its network does? It is opened by its own runtime, and asked.

Sizes: the training crop; one that is not square; another number of images.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from reconet.errors import ExportError
from reconet.export.images import Images, batch_of
from reconet.inference.backends import Opened
from reconet.models.layers import resize
from reconet.models.segmenter import Segmenter

# fp32 in another order of its sums, and what that may move.
LARGEST_DIFFERENCE = 1e-3
LEAST_AGREEMENT = 0.999


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Between an export and its network, on images of one size."""

    images: int
    size: tuple[int, int]
    logits: float  # largest difference, in units of the largest logit
    labels: float  # fraction of the pixels with the same label

    @property
    def fine(self) -> bool:
        return self.logits <= LARGEST_DIFFERENCE and self.labels >= LEAST_AGREEMENT

    def __str__(self) -> str:
        return (
            f"{self.images} x {self.size[0]} x {self.size[1]}: logits differ by "
            f"{self.logits:.1e} of the largest, {100 * self.labels:.3f} % of the labels agree"
        )


def shapes(crop: tuple[int, int], smallest: int) -> list[tuple[int, tuple[int, int]]]:
    """(images, size): what every export is tried on."""
    height, width = (max(side, smallest) for side in crop)
    wide = (max(smallest, 3 * height // 4 + 1), 5 * width // 4 + 3)
    small = (max(smallest, height // 2 + 5), max(smallest, width // 2))
    return [(1, (height, width)), (1, wide), (2, small)]


def check(opened: Opened, model: Segmenter, images: Images) -> list[Difference]:
    """Compare an export, opened for labels and logits, with the eager network."""
    info = opened.info
    return [
        compare(opened, model, images, count, size)
        for count, size in shapes(info.network.recipe.data.crop, info.smallest)
    ]


def refuse(path: Path, found: Sequence[Difference]) -> None:
    """A difference that rounding does not explain is an error."""
    wrong = next((difference for difference in found if not difference.fine), None)
    if wrong is not None:
        raise ExportError(f"{path} does not compute what its network does: {wrong}.")


@torch.no_grad()
def compare(
    opened: Opened, model: Segmenter, images: Images, count: int, size: tuple[int, int]
) -> Difference:
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
