"""From an image to the class of every pixel and its probability, and to PNGs of them.

Nothing of size classes x height x width is kept: of each band of rows only the best class and its
probability stay, one byte each.

Dimensions: h, w pixels, c colours, k classes.
"""

from base64 import b64encode
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from reconet.data.images.draw import fit
from reconet.inference.predictor import Predictor
from reconet.inference.protocol import Protocol
from reconet.inference.windows import Forward, bands
from reconet.types import Image, Label

VIEW_SIDE = 1600  # the page sees no more pixels a side; hovering needs them all in the browser


@dataclass(frozen=True, kw_only=True, eq=False)
class Map:
    """The best class of every pixel, and its probability in 255ths."""

    label_hw: Label
    probability_hw: NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        return self.label_hw.nbytes + self.probability_hw.nbytes

    def view(self) -> "Map":
        """As the page sees it."""
        return Map(label_hw=thinned(self.label_hw), probability_hw=thinned(self.probability_hw))


def segment(predictor: Predictor, image_hwc: Image) -> Map:
    network = predictor.network
    pixels = torch.from_numpy(image_hwc).to(predictor.device)
    return best(network.forward, pixels, predictor.protocol, len(network.info.classes))


def best(forward: Forward, image_hwc: torch.Tensor, protocol: Protocol, num_classes: int) -> Map:
    size = tuple(image_hwc.shape[:2])
    label_hw, probability_hw = np.empty(size, np.uint8), np.empty(size, np.uint8)
    for rows, part_hkw in bands(forward, image_hwc, protocol, num_classes):
        top = part_hkw.max(1)
        label_hw[rows] = top.indices.to(torch.uint8).cpu().numpy()
        probability_hw[rows] = (255 * top.values).round_().clamp_(0, 255).to(torch.uint8).cpu()
    return Map(label_hw=label_hw, probability_hw=probability_hw)


def counts(label_hw: Label, num_classes: int) -> list[int]:
    """Pixels of each class."""
    return np.bincount(label_hw.ravel(), minlength=num_classes).tolist()  # type: ignore[no-any-return]


def shrunk(image_hwc: Image) -> Image:
    """An image as the page sees it."""
    if max(image_hwc.shape[:2]) <= VIEW_SIDE:
        return image_hwc
    return fit(image_hwc, VIEW_SIDE, VIEW_SIDE)


def thinned(value_hw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Values at the places of the shrunk image's pixels: labels cannot be averaged."""
    height, width = value_hw.shape
    zoom = VIEW_SIDE / max(height, width)
    if zoom >= 1:
        return value_hw
    rows, columns = (
        ((np.arange(n) + 0.5) * length / n).astype(int)
        for length in (height, width)
        for n in [max(1, round(length * zoom))]
    )
    return np.asarray(value_hw[rows][:, columns], np.uint8)


def hover_png(found: Map) -> bytes:
    """Red: the class, green: its probability. The page reads both from a canvas."""
    zero_hw = np.zeros_like(found.label_hw)
    return encoded(".png", np.stack([found.label_hw, found.probability_hw, zero_hw], axis=2))


def encoded(suffix: str, image_hwc: NDArray[np.uint8]) -> bytes:
    """An RGB image as the bytes of a file."""
    fine, data_n = cv2.imencode(suffix, image_hwc[..., ::-1])
    assert fine
    return data_n.tobytes()


def base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")
