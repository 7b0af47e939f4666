"""Class and probability of every pixel of an image, and PNGs of them.

Dimensions: h, w pixels, c colours.
"""

from base64 import b64encode
from dataclasses import dataclass
from typing import Self

import cv2
import numpy as np
from numpy.typing import NDArray

from reconet.data.images.draw import fit
from reconet.inference.predictor import Predictor
from reconet.types import Image, Label

VIEW_SIDE = 1600  # longest side in the page: the browser holds all pixels for reading them


@dataclass(frozen=True, kw_only=True, eq=False)
class PixelMap:
    """The most probable class of every pixel, and its probability in 255ths."""

    label_hw: Label
    probability_hw: NDArray[np.uint8]

    @classmethod
    def predict(cls, predictor: Predictor, image_hwc: Image) -> Self:
        """Segment an image."""
        label_hw, probability_hw = predictor.best(image_hwc)
        return cls(label_hw=label_hw, probability_hw=probability_hw)

    @property
    def nbytes(self) -> int:
        return self.label_hw.nbytes + self.probability_hw.nbytes

    def for_view(self) -> "PixelMap":
        """Return the map at the size of the page."""
        return PixelMap(
            label_hw=subsample_for_view(self.label_hw),
            probability_hw=subsample_for_view(self.probability_hw),
        )

    def png(self) -> bytes:
        """Encode the class as red and its probability as green. The page reads both."""
        zero_hw = np.zeros_like(self.label_hw)
        return encode_image(".png", np.stack([self.label_hw, self.probability_hw, zero_hw], axis=2))


def count_pixels(label_hw: Label, num_classes: int) -> list[int]:
    """Count the pixels of each class."""
    return np.bincount(label_hw.ravel(), minlength=num_classes).tolist()  # type: ignore[no-any-return]


def shrink_for_view(image_hwc: Image) -> Image:
    """Shrink a large image to the size of the page."""
    if max(image_hwc.shape[:2]) <= VIEW_SIDE:
        return image_hwc
    return fit(image_hwc, VIEW_SIDE, VIEW_SIDE)


def subsample_for_view(value_hw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Take the values at the pixels of the shrunk image. Labels cannot be averaged."""
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


def encode_image(suffix: str, image_hwc: NDArray[np.uint8]) -> bytes:
    """Encode an RGB image as the bytes of a file."""
    success, data_n = cv2.imencode(suffix, image_hwc[..., ::-1])
    assert success
    return data_n.tobytes()


def base64_text(data: bytes) -> str:
    return b64encode(data).decode("ascii")
