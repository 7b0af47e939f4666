"""An image's segmentation with some ranks of its attention switched off.

The image is shown to the network once, exactly as for its prediction: window by window. What the
network has computed up to the fusing convolution is kept for each window. Any choice of ranks then
replays the same windows from there, through the same inference: no second way to cut, to resample
or to average.

Dimensions: h, w pixels, b windows at once (here always one), c, i, j channels and places of a
feature map, r rank.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reconet.errors import RecipeError
from reconet.inference.predictor import Predictor
from reconet.inference.windows import Forward, probabilities
from reconet.models.decompose import Inside, look_inside, reconstruction
from reconet.models.segmenter import Segmenter
from reconet.serve.segment import Map, best, encoded
from reconet.types import Image

MOST_BYTES = 2**28  # of kept features; beyond that an image cannot be explored


class TooMuchError(Exception):
    """An image has more windows than we keep features of."""


def rank_of(model: Segmenter | None) -> int:
    """How many ranks there are to explore; none in other networks and in exported files."""
    if model is None:
        return 0
    try:
        return len(reconstruction(model).rank_logits_r)
    except RecipeError:
        return 0


class Explorer:
    """One image, with what its windows were inside the network."""

    def __init__(self, predictor: Predictor, image_hwc: Image) -> None:
        model = predictor.network.model
        assert model is not None
        self.rank = rank_of(model)
        self.num_classes = len(predictor.network.info.classes)
        self.pixels_hwc = torch.from_numpy(image_hwc).to(predictor.device)
        # One scale, and no mirror images: a question about ranks is no question about averages.
        self.protocol = replace(predictor.protocol, scales=(1.0,), flip=False, batch=1)
        self.windows: list[Inside] = []
        self.nbytes = 0
        everything = torch.ones(self.rank, dtype=torch.bool, device=predictor.device)
        self.whole = self._show(lambda image_bchw: self._keep(model, image_bchw).logits(everything))

    def without(self, off: Collection[int]) -> Map:
        """The segmentation with some ranks switched off."""
        if not off:
            return self.whole
        keep_r = torch.ones(self.rank, dtype=torch.bool, device=self.pixels_hwc.device)
        keep_r[list(off)] = False
        return self._show(self._replay(lambda inside: inside.logits(keep_r)))

    def shares(self) -> list[float]:
        """Of each rank: what part of A * X, summed over the image, comes from it."""
        total_r = [sum(float(w.heat(r).sum()) for w in self.windows) for r in range(self.rank)]
        whole = sum(total_r) or 1.0
        return [one / whole for one in total_r]

    def weights(self) -> list[float]:
        """The lambdas."""
        return [float(value) for value in self.windows[0].factors.weight_r]

    def heat(self, rank: int) -> NDArray[np.float32]:
        """Where a rank re-weights the map: the mean over channels of A_i * X, heat_hw in 0..1.

        The windows meet as those of a prediction do, by passing heat for the probability of the
        first of two classes.
        """
        most = max(float(window.heat(rank).max()) for window in self.windows) or 1.0

        def two_classes(inside: Inside) -> Tensor:
            heat_ij = (inside.heat(rank) / most).clamp(1e-3, 1 - 1e-3)
            return torch.stack([heat_ij.log(), (1 - heat_ij).log()])[None]

        forward = self._replay(two_classes)
        heat_2hw = probabilities(forward, self.pixels_hwc, self.protocol, 2)
        return np.asarray(heat_2hw[0].cpu().numpy(), np.float32)

    def _show(self, forward: Forward) -> Map:
        return best(forward, self.pixels_hwc, self.protocol, self.num_classes)

    def _keep(self, model: Segmenter, image_bchw: Tensor) -> Inside:
        inside = look_inside(model, image_bchw)
        tensors = (inside.x_bchw, inside.rest_bchw)
        self.nbytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        if self.nbytes > MOST_BYTES:
            raise TooMuchError
        self.windows.append(inside)
        return inside

    def _replay(self, answer: Callable[[Inside], Tensor]) -> Forward:
        """The same windows come in the same order: inference depends on sizes alone."""
        windows: Iterator[Inside] = iter(self.windows)
        return lambda _image_bchw: answer(next(windows))


def heat_png(heat_hw: NDArray[np.float32]) -> bytes:
    """From cold, dark to hot, bright; evenly for the eye and for the colour-blind."""
    byte_hw = (255 * heat_hw / max(float(heat_hw.max()), 1e-6)).astype(np.uint8)
    colour_hwc = cv2.applyColorMap(byte_hw, cv2.COLORMAP_INFERNO)
    return encoded(".png", np.asarray(colour_hwc, np.uint8)[..., ::-1])
