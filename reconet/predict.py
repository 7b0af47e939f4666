"""Pictures in, labels out: the network of a run as one callable."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self, overload

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image as Pillow

from reconet.data.dataset import Colour, Image, Label
from reconet.data.draw import overlay
from reconet.data.images import read_image
from reconet.inference import labels, probabilities
from reconet.protocol import Protocol
from reconet.runtime import Network, open_network
from reconet.share import open_shared
from reconet.world import pick_device

Picture = str | Path | Pillow.Image | Image  # a file, or RGB uint8 (h, w, 3)
Pictures = list[Picture] | tuple[Picture, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """What a network says of one picture, at the picture's own size."""

    image_hwc: Image
    label_hw: Label
    classes: tuple[str, ...]
    palette: tuple[Colour, ...]
    probability_khw: NDArray[np.float32] | None = None  # if it was asked for

    def overlay(self, alpha: float = 0.5) -> Pillow.Image:
        """The picture, tinted by the colours of its classes."""
        return Pillow.fromarray(overlay(self.image_hwc, self.label_hw, self.palette, alpha))


class Predictor:
    """A network ready for pictures. Threads may share one."""

    def __init__(
        self, network: Network, *, protocol: Protocol | None = None, device: str = "auto"
    ) -> None:
        recipe = network.recipe
        self.network = network
        self.protocol = protocol or Protocol.of(recipe.eval, recipe.data)
        self.device = pick_device(device)

    @classmethod
    def from_run(
        cls, source: str | Path, *, protocol: Protocol | None = None, device: str = "auto"
    ) -> Self:
        """The best network of a run directory, or a file of one: .safetensors or an export."""
        network = open_network(Path(source), pick_device(device))
        return cls(network, protocol=protocol, device=device)

    @classmethod
    def from_pretrained(
        cls, source: str | Path, *, protocol: Protocol | None = None, device: str = "auto"
    ) -> Self:
        """A network that somebody shared: a folder of `reconet share`, or its id on the hub."""
        return cls.from_run(open_shared(source), protocol=protocol, device=device)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.network.classes

    @overload
    def __call__(self, picture: Picture, *, with_probabilities: bool = ...) -> Prediction: ...
    @overload
    def __call__(
        self, picture: Pictures, *, with_probabilities: bool = ...
    ) -> list[Prediction]: ...
    def __call__(
        self, picture: Picture | Pictures, *, with_probabilities: bool = False
    ) -> Prediction | list[Prediction]:
        if isinstance(picture, list | tuple):
            return [self(one, with_probabilities=with_probabilities) for one in picture]
        image_hwc = as_rgb(picture)
        pixels = torch.from_numpy(image_hwc).to(self.device)
        network, classes = self.network, len(self.network.classes)
        probability_khw = None
        if with_probabilities:
            probability = probabilities(network.forward, pixels, self.protocol, classes)
            probability_khw = probability.cpu().numpy()
            label_hw = probability_khw.argmax(0).astype(np.uint8)
        else:
            label_hw = labels(network.forward, pixels, self.protocol, classes).cpu().numpy()
        return Prediction(
            image_hwc=image_hwc,
            label_hw=label_hw,
            classes=network.classes,
            palette=network.palette,
            probability_khw=probability_khw,
        )


def as_rgb(picture: Picture) -> Image:
    if isinstance(picture, str | Path):
        return read_image(Path(picture))
    return np.array(picture.convert("RGB") if isinstance(picture, Pillow.Image) else picture)
