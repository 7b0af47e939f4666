"""ImageSources in, labels out: the network of a run as one callable.

segment = Predictor.from_run("runs/first")
result = segment("street.jpg")            # a file, a Pillow image or an array
results = segment(["a.jpg", "b.jpg"])     # images of one size go through the network together
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image as Pillow

from reconet.data.images.draw import overlay
from reconet.data.images.read import read_upright, to_upright
from reconet.errors import DataError
from reconet.inference.network import AUTO, Network, open_fast
from reconet.inference.protocol import Protocol
from reconet.inference.windows import Reader, bands, best_class, read_together, windows_seen
from reconet.models.hub import find_shared
from reconet.system.distributed import pick_device
from reconet.types import Colour, Image, Label

ImageSource = str | Path | Pillow.Image | Image  # a file, or RGB uint8 (h, w, 3)
ImageSources = list[Any] | tuple[Any, ...]  # of Image; any, since a list[str] is no list[Image]

SMALL = 2**22  # pixels: larger images do not wait in memory for others
STRIP = 256  # rows of an overlay that are mixed at once


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """What a network says of one image, at the image's own size."""

    image_hwc: Image
    label_hw: Label
    classes: tuple[str, ...]
    palette: tuple[Colour, ...]
    probability_khw: NDArray[np.float32] | None = None  # if it was asked for

    def overlay(self, alpha: float = 0.5) -> Pillow.Image:
        """The image, tinted by the colours of its classes."""
        mixed_hwc = np.empty_like(self.image_hwc)
        for top in range(0, len(mixed_hwc), STRIP):  # so that a huge image needs no third copy
            rows = slice(top, top + STRIP)
            mixed_hwc[rows] = overlay(
                self.image_hwc[rows], self.label_hw[rows], self.palette, alpha
            )
        return Pillow.fromarray(mixed_hwc)

    def __repr__(self) -> str:
        height, width = self.label_hw.shape
        said = ", ".join(f"{name} {100 * share:.1f} %" for name, share in self.shares().items())
        more = "; with probabilities" if self.probability_khw is not None else ""
        return f"Prediction({width} x {height}: {said}{more})"

    def shares(self) -> dict[str, float]:
        """The part of the image that each class covers; the largest first, absent ones not."""
        count_k = np.bincount(self.label_hw.ravel(), minlength=len(self.classes))
        share_k = count_k / self.label_hw.size
        order = np.argsort(-share_k, kind="stable")
        return {self.classes[k]: float(share_k[k]) for k in order if count_k[k]}


class Predictor:
    """A network ready for images. Threads may share one."""

    def __init__(
        self, network: Network, *, protocol: Protocol | None = None, device: str = "auto"
    ) -> None:
        recipe = network.info.recipe
        self.network = network
        self.protocol = protocol or Protocol.of(recipe.eval, recipe.data)
        self.device = pick_device(device)

    @classmethod
    def from_run(
        cls,
        source: str | Path,
        *,
        protocol: Protocol | None = None,
        device: str = "auto",
        precision: str = AUTO,
    ) -> Self:
        """The best network of a run directory, or a file of one: .safetensors or an export.

        `precision` is fp32, bf16, or "auto": the fastest that is safe here. `network.how` says
        which it is.
        """
        network = open_fast(Path(source), pick_device(device), precision)
        return cls(network, protocol=protocol, device=device)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        protocol: Protocol | None = None,
        device: str = "auto",
        precision: str = AUTO,
    ) -> Self:
        """A network that somebody shared: a folder of `reconet share`, or its id on the hub."""
        path = find_shared(source)
        return cls.from_run(path, protocol=protocol, device=device, precision=precision)

    def __repr__(self) -> str:
        model = self.network.info.recipe.model
        return (
            f"Predictor({model.context} on {model.backbone}, {len(self.classes)} classes, "
            f"{self.network.how}, on {self.device}; {self.protocol})"
        )

    @property
    def classes(self) -> tuple[str, ...]:
        return self.network.info.classes

    @overload
    def __call__(self, source: ImageSource, *, with_probabilities: bool = ...) -> Prediction: ...
    @overload
    def __call__(
        self, source: ImageSources, *, with_probabilities: bool = ...
    ) -> list[Prediction]: ...
    def __call__(
        self, source: ImageSource | ImageSources, *, with_probabilities: bool = False
    ) -> Prediction | list[Prediction]:
        several = isinstance(source, list | tuple)
        listed = list(source) if isinstance(source, list | tuple) else [source]
        images = [as_rgb(one) for one in listed]
        said: dict[int, Prediction] = {}
        for group in self._groups([image_hwc.shape[:2] for image_hwc in images]):
            some = self._predict([images[number] for number in group], with_probabilities)
            said.update(zip(group, some, strict=True))
        return [said[number] for number in range(len(images))] if several else said[0]

    def best(self, source: ImageSource) -> tuple[Label, NDArray[np.uint8]]:
        """Return the most probable class of each pixel, and its probability in 255ths.

        Both are (h, w) of one byte: the probabilities of the other classes are never kept.
        """
        image_hwc = as_rgb(source)
        label_hw = np.empty(image_hwc.shape[:2], np.uint8)
        probability_hw = np.empty_like(label_hw)
        pixels_hwc = torch.from_numpy(image_hwc).to(self.device)
        parts = bands(self.network.forward, pixels_hwc, self.protocol, len(self.classes))
        for rows, probability_hkw in parts:
            best_label_hw, best_hw = best_class(probability_hkw)
            label_hw[rows] = best_label_hw.cpu().numpy()
            byte_hw = best_hw.mul_(255).round_().clamp_(0, 255).to(torch.uint8)
            probability_hw[rows] = byte_hw.cpu().numpy()
        return label_hw, probability_hw

    def together(self, size: tuple[int, ...]) -> int:
        """How many images of a size (h, w) go through the network at once."""
        height, width = size
        if height * width > SMALL:
            return 1
        return max(1, self.protocol.batch // windows_seen((height, width), self.protocol))

    def _groups(self, sizes: Sequence[tuple[int, ...]]) -> list[list[int]]:
        """Numbers of images that are shown together."""
        by_size: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, size in enumerate(sizes):
            by_size[size].append(number)
        return [
            numbers[start : start + count]
            for size, numbers in by_size.items()
            for count in [self.together(size)]
            for start in range(0, len(numbers), count)
        ]

    def _predict(self, images: list[Image], with_probabilities: bool) -> list[Prediction]:
        """Of images of one size."""
        forward, protocol = self.network.forward, self.protocol
        shown = [torch.from_numpy(image_hwc).to(self.device) for image_hwc in images]
        readers: Sequence[list[Reader] | None] = [None]
        if len(shown) > 1:
            readers = read_together(forward, shown, protocol)
        return [
            self._read_out(image_hwc, pixels_hwc, own, with_probabilities)
            for image_hwc, pixels_hwc, own in zip(images, shown, readers, strict=True)
        ]

    def _read_out(
        self,
        image_hwc: Image,
        pixels_hwc: torch.Tensor,
        readers: list[Reader] | None,
        with_probabilities: bool,
    ) -> Prediction:
        network, size = self.network, image_hwc.shape[:2]
        classes = len(network.info.classes)
        label_hw = np.empty(size, np.uint8)
        probability_khw = np.empty((classes, *size), np.float32) if with_probabilities else None
        parts = bands(network.forward, pixels_hwc, self.protocol, classes, readers)
        for rows, probability_hkw in parts:
            label_hw[rows] = best_class(probability_hkw)[0].cpu().numpy()
            if probability_khw is not None:
                probability_khw[:, rows] = probability_hkw.transpose(0, 1).cpu().numpy()
        return Prediction(
            image_hwc=image_hwc,
            label_hw=label_hw,
            classes=network.info.classes,
            palette=network.info.palette,
            probability_khw=probability_khw,
        )


def as_rgb(source: object) -> Image:
    """RGB uint8 (h, w, 3), upright, of its own memory."""
    if isinstance(source, str | Path):
        return read_upright(Path(source)).image_hwc
    if isinstance(source, Pillow.Image):
        return to_upright(source)
    if isinstance(source, torch.Tensor):
        raise DataError(
            f"an image is a path, a Pillow image or an array, got a tensor {(*source.shape,)}; "
            "of uint8 image_chw, give image_chw.permute(1, 2, 0).cpu().numpy()."
        )
    if not isinstance(source, np.ndarray):
        raise DataError(
            f"an image is a path, a Pillow image or an array, got {type(source).__name__}."
        )
    image = source[..., None] if source.ndim == 2 else source
    if image.ndim != 3 or image.shape[2] not in (1, 3, 4) or image.dtype != np.uint8:
        raise DataError(
            "an array is an image if it is uint8 (h, w, 3), (h, w, 4) or (h, w), "
            f"got {source.dtype} {source.shape}."
        )
    if image.size == 0:
        raise DataError(f"an image needs pixels, got an array of shape {source.shape}.")
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else np.array(image[..., :3])
