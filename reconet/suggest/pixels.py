"""Judge every pixel of an image: where a network is unsure, and where it contradicts the mask.

Both are 0 to 1.

    unsure        entropy of the probabilities, divided by the largest that it can be
    contradicts   probability of the network's class, minus that of the mask's class;
                  0 where they agree, and where the mask is void

Dimensions: h, w pixels, k classes.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reconet.inference import Network, Protocol
from reconet.inference.windows import best_class, probability_bands
from reconet.types import IGNORE, Image, Label

LEAST = 1e-12  # a probability, so that its logarithm is finite


class Judged(NamedTuple):
    """What a network makes of an image."""

    predicted_hw: Label
    value_hw: NDArray[np.float32]  # unsure, or contradicts


def unsure(probability_hkw: Tensor) -> Tensor:
    """Return the entropy of each pixel, 0 to 1."""
    classes = probability_hkw.shape[1]
    log_hkw = probability_hkw.clamp_min(LEAST).log()
    entropy_hw = -(probability_hkw * log_hkw).sum(1) / math.log(max(2, classes))
    return entropy_hw.clamp(0, 1)


def contradicts(probability_hkw: Tensor, label_hw: Tensor) -> Tensor:
    """Return how much more probable the network's class is than the mask's, 0 to 1."""
    valid_hw = label_hw != IGNORE
    label_h1w = label_hw.where(valid_hw, 0).long().unsqueeze(1)
    given_hw = probability_hkw.gather(1, label_h1w).squeeze(1)
    return (best_class(probability_hkw)[1] - given_hw).clamp_(0, 1) * valid_hw


@dataclass(frozen=True)
class Judge:
    """A network, and how images are shown to it."""

    network: Network
    protocol: Protocol
    device: torch.device

    def __call__(self, image_hwc: Image, label_hw: Label | None = None) -> Judged:
        """Judge an image: where the network contradicts its labels, or is unsure without them."""
        network, size = self.network, image_hwc.shape[:2]
        pixels_hwc = torch.from_numpy(image_hwc).to(self.device)
        given_hw = None if label_hw is None else torch.from_numpy(label_hw).to(self.device)
        predicted_hw, value_hw = np.empty(size, np.uint8), np.empty(size, np.float32)
        classes = len(network.info.classes)
        for rows, part_hkw in probability_bands(
            network.forward, pixels_hwc, self.protocol, classes
        ):
            value = unsure(part_hkw) if given_hw is None else contradicts(part_hkw, given_hw[rows])
            predicted_hw[rows] = best_class(part_hkw)[0].cpu().numpy()
            value_hw[rows] = value.cpu().numpy()
        return Judged(predicted_hw, value_hw)
