"""Segment an image with some ranks switched off.

The image goes through the network once, window by window, exactly as for its prediction. For each
window the features before the fusing convolution are kept. Any choice of ranks then replays the
same windows from there, through the same Predictor. So windows are cut, resampled and averaged in
one way only.

Dimensions: h, w pixels, b windows at once (here always one), c, i, j channels and positions of a
feature map, r rank.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from torch import Tensor

from reconet.errors import RecipeError
from reconet.inference.predictor import Predictor
from reconet.inference.windows import Forward, predict_probabilities
from reconet.models.decompose import Decomposition, decompose, low_rank_core
from reconet.models.segmenter import Segmenter
from reconet.serve.images import PixelMap, encode_image
from reconet.types import Image

MOST_BYTES = 2**28  # of kept features; an image with more cannot be explored


def count_ranks(model: Segmenter | None) -> int:
    """Return how many ranks there are to explore. Other contexts and exported files have none."""
    if model is None:
        return 0
    try:
        return low_rank_core(model).rank
    except RecipeError:
        return 0


class Explorer:
    """One image, with the features of its windows inside the network."""

    def __init__(self, predictor: Predictor, image_hwc: Image) -> None:
        model = predictor.network.model
        assert model is not None
        self.rank = count_ranks(model)
        self.image_hwc = image_hwc
        # One scale and no mirroring, so that a change comes from the ranks and not from averages.
        self.protocol = replace(predictor.protocol, scales=(1.0,), flip=False, batch=1)
        self.predictor = predictor
        self.windows: list[Decomposition] = []
        self.nbytes = 0
        everything_r = self._keep_all()
        self.all_ranks = self._predict(
            lambda image_bchw: self._keep(model, image_bchw).logits(everything_r)
        )

    def without(self, off: Collection[int]) -> PixelMap:
        """Segment the image with some ranks switched off."""
        if not off:
            return self.all_ranks
        keep_r = self._keep_all()
        keep_r[list(off)] = False
        return self._predict(self._replay(lambda window: window.logits(keep_r)))

    def shares(self) -> list[float]:
        """Return what part of A * X, or of Y, summed over the image, comes from each rank.

        Sizes are summed, as a lambda of reconet_plus may be negative.
        """
        total_r = [abs(sum(float(w.heat(r).sum()) for w in self.windows)) for r in range(self.rank)]
        whole = sum(total_r) or 1.0
        return [total / whole for total in total_r]

    def weights(self) -> list[float]:
        """Return lambda of each rank."""
        return [float(value) for value in self.windows[0].factors.weight_r]

    def heat(self, rank: int) -> NDArray[np.float32]:
        """Return where a rank acts: the mean over channels of A_i * X or Y_i, in 0..1.

        The windows are joined as those of a prediction are. For that, heat is passed as the
        probability of the first of two classes.
        """
        most = max(float(window.heat(rank).abs().max()) for window in self.windows) or 1.0

        def two_classes(window: Decomposition) -> Tensor:
            heat_ij = (window.heat(rank).abs() / most).clamp(1e-3, 1 - 1e-3)
            return torch.stack([heat_ij.log(), (1 - heat_ij).log()])[None]

        pixels_hwc = torch.from_numpy(self.image_hwc).to(self.predictor.device)
        forward = self._replay(two_classes)
        heat_2hw = predict_probabilities(forward, pixels_hwc, self.protocol, 2)
        return np.asarray(heat_2hw[0].cpu().numpy(), np.float32)

    def _keep_all(self) -> Tensor:
        return torch.ones(self.rank, dtype=torch.bool, device=self.predictor.device)

    def _predict(self, forward: Forward) -> PixelMap:
        """Segment the image with another forward pass in place of the network's own."""
        network = replace(self.predictor.network, forward=forward)
        predictor = Predictor(network, protocol=self.protocol, device=str(self.predictor.device))
        return PixelMap(*predictor.best(self.image_hwc))

    def _keep(self, model: Segmenter, image_bchw: Tensor) -> Decomposition:
        window = decompose(model, image_bchw)
        tensors = (window.x_bchw, window.rest_bchw)
        self.nbytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        if self.nbytes > MOST_BYTES:
            raise HTTPException(
                413, "the image has too many windows to explore its ranks; try a smaller one."
            )
        self.windows.append(window)
        return window

    def _replay(self, logits: Callable[[Decomposition], Tensor]) -> Forward:
        """Return a forward pass over the kept windows. Their order depends on sizes alone."""
        windows: Iterator[Decomposition] = iter(self.windows)
        return lambda _image_bchw: logits(next(windows))


def heat_png(heat_hw: NDArray[np.float32]) -> bytes:
    """Encode heat with colours from dark to bright that suit the colour-blind too."""
    byte_hw = (255 * heat_hw / max(float(heat_hw.max()), 1e-6)).astype(np.uint8)
    colour_hwc = cv2.applyColorMap(byte_hw, cv2.COLORMAP_INFERNO)
    return encode_image(".png", np.asarray(colour_hwc, np.uint8)[..., ::-1])
