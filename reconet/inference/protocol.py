"""Decide how an image is shown to a network, and which windows that makes of it.

Windows are the protocol of the papers that this work builds on. The long side is scaled to
base_size x scale. An image that fits the crop is padded and shown once. A larger image is shown in
windows of the crop's size, 2/3 of it apart. Validations in training show the whole image at once,
which is the default of recipes. Scales may be relative to the image's own size.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor

from reconet.inference.resampling import Span, first_centre
from reconet.recipes.schema import Data, Eval

MOST_ELONGATED = 4
BYTES_PER_PIXEL = 256  # of an image inside a network: the stem of a ResNet, in and out


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How an image is shown to a network. The names are those of the recipe's settings."""

    mode: Literal["slide", "whole"] = "slide"
    scales: tuple[float, ...] = (1.0,)
    flip: bool = False
    relative_to: Literal["base_size", "short_side", "original"] = "base_size"
    base_size: int = 520
    crop: tuple[int, int] = (512, 512)
    batch: int = 4  # most windows, mirrored ones included, that the network sees at once
    budget_bytes: int = 2**31  # for sums, kept logits, and what the network holds of a batch

    @classmethod
    def of(cls, settings: Eval, data: Data) -> Self:
        """Return the protocol that a recipe asks for."""
        return cls(
            mode=settings.mode,
            scales=settings.scales,
            flip=settings.flip,
            relative_to=settings.relative_to,
            base_size=data.base_size,
            crop=data.crop,
        )

    @classmethod
    def in_training(cls, data: Data) -> Self:
        """Show each image once and whole, at the size that a scale of 1 means in training."""
        return cls(mode="whole", base_size=data.base_size, crop=data.crop)

    def __str__(self) -> str:
        """Describe the protocol in one line, to print beside every score."""
        side = "short" if self.relative_to == "short_side" else "long"
        own = self.relative_to == "original"
        scale_one = "the image's own size" if own else f"a {side} side of {self.base_size}"
        scales = ", ".join(f"{scale:g}" for scale in self.scales)
        crop = f"{self.crop[0]} x {self.crop[1]}"
        windows = f"windows of {crop} at 2/3 of their size"
        if self.mode == "whole":
            windows = f"whole images (over {self.most_pixels:,} pixels: {windows})"
        mirror = "with mirror images" if self.flip else "no mirror images"
        return f"{windows}; scale {scales} of {scale_one}; {mirror}; mean of softmax"

    @property
    def name(self) -> str:
        """Name the protocol in a few words."""
        windows = f"windows of {self.crop[0]} x {self.crop[1]}"
        scales = f", {len(self.scales)} scales" if len(self.scales) > 1 else ""
        base = "whole images" if self.mode == "whole" else windows
        return f"{base}{scales}{', mirrored' if self.flip else ''}"

    @property
    def most_pixels(self) -> int:
        """Return how many pixels a network may see at once."""
        return self.budget_bytes // BYTES_PER_PIXEL


# Each image once, at its own size.
WHOLE = Protocol(mode="whole", relative_to="original")


class WindowAxis(NamedTuple):
    """One axis of an image at one scale, with the windows on it."""

    length: int  # pixels of the image
    scaled: int  # pixels at this scale
    crop: int  # pixels of a window, more than `scaled` if the image is padded
    starts: tuple[int, ...]

    def span(self, start: int) -> Span:
        """Return the image's pixels whose centres are in a window."""
        stop = start + self.crop
        last = self.length if stop >= self.scaled else first_centre(stop, self.length, self.scaled)
        return first_centre(start, self.length, self.scaled), last

    def share(self) -> Tensor:
        """Return, for each pixel, one over the number of windows that it is in."""
        count_n = torch.zeros(self.length)
        for first, last in map(self.span, self.starts):
            count_n[first:last] += 1
        return 1 / count_n

    def places(self, start: int, pixels: Span, size: int) -> Tensor:
        """Return where pixels of the image are in a window's logits, which are `size` long."""
        pixel_n = torch.arange(*pixels, dtype=torch.float64)
        inside_n = (pixel_n + 0.5) * (self.scaled / self.length) - start
        return inside_n * (size / self.crop) - 0.5


class WindowGrid(NamedTuple):
    """An image at one scale, cut into windows of one size."""

    rows: WindowAxis
    columns: WindowAxis

    def corners(self) -> list[tuple[int, int]]:
        """Return top and left of every window."""
        return [(top, left) for top in self.rows.starts for left in self.columns.starts]


def window_starts(length: int, crop: int, stride: int) -> tuple[int, ...]:
    """Return where windows begin that cover `length`. The last is pulled back inside."""
    return (*range(0, length - crop, stride), max(0, length - crop))


def _zoom_of_one(size: tuple[int, int], protocol: Protocol) -> float:
    """Return the factor on an image's sides that a scale of 1 means."""
    if protocol.relative_to == "original":
        return 1.0
    long = protocol.base_size / max(size)
    if protocol.relative_to == "base_size":
        return long
    # A long side of at most 4 x base_size is mmsegmentation's bound, for panoramas.
    return min(protocol.base_size / min(size), MOST_ELONGATED * long)


def window_grid(
    size: tuple[int, int], scale: float, protocol: Protocol, most_pixels: int | None = None
) -> WindowGrid:
    """Return the windows of an image of some size at one scale of a protocol.

    Larger images than `most_pixels`, by default those of the protocol, are cut into windows.
    """
    zoom = scale * _zoom_of_one(size, protocol)
    scaled = [max(1, round(zoom * length)) for length in size]
    whole = protocol.mode == "whole" and math.prod(scaled) <= (most_pixels or protocol.most_pixels)
    crop = scaled if whole else protocol.crop
    stride = [max(1, 2 * side // 3) for side in crop]
    axes = (
        WindowAxis(length, to, side, window_starts(to, side, step))
        for length, to, side, step in zip(size, scaled, crop, stride, strict=True)
    )
    return WindowGrid(*axes)
