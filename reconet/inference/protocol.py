"""Decide how an image is shown to a network, and which windows that makes of it.

Windows are the protocol of the papers that this work builds on. The long side is scaled to
base_size x scale. An image that fits the crop is padded and shown once. A larger image is shown in
windows of the crop's size, 2/3 of it apart. Validations in training show the whole image at once,
which is the default of recipes. Scales may be relative to the image's own size.

Pixel centres keep their places, as everywhere in the package. If an image of `length` pixels is
scaled to `scaled` pixels, the centre of pixel t of the result lies at

    (t + 0.5) * length / scaled - 0.5

in the image. Its value is the linear mean of the two neighbours. If the image shrinks to less
than half, its value is the mean over its area. Training does the same.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor

from reconet.data.transforms import AREA_BELOW
from reconet.recipes.schema import Data, Eval

MOST_ELONGATED = 4
BYTES_PER_PIXEL = 256  # of an image inside a network: the stem of a ResNet, in and out
# Floats read at once: a window of an image that shrinks a lot is made of very many pixels.
MOST_SAMPLES = 2**24

Span = tuple[int, int]  # first, last + 1


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


def window_grid(
    size: tuple[int, int], scale: float, protocol: Protocol, most_pixels: int | None = None
) -> WindowGrid:
    """Return the windows of an image of some size at one scale of a protocol.

    Larger images than `most_pixels`, by default those of the protocol, are cut into windows.
    """
    zoom = scale
    if protocol.relative_to != "original":
        zoom *= protocol.base_size / max(size)
    if (
        protocol.relative_to == "short_side"
    ):  # at most 4 times: mmsegmentation's bound, for panoramas
        zoom *= min(max(size) / min(size), MOST_ELONGATED)
    scaled = [max(1, round(zoom * length)) for length in size]
    whole = protocol.mode == "whole" and math.prod(scaled) <= (most_pixels or protocol.most_pixels)
    crop = scaled if whole else protocol.crop
    stride = [max(1, 2 * side // 3) for side in crop]
    axes = (
        WindowAxis(length, to, side, window_starts(to, side, step))
        for length, to, side, step in zip(size, scaled, crop, stride, strict=True)
    )
    return WindowGrid(*axes)


def first_centre(start: int, length: int, scaled: int) -> int:
    """Return the first pixel of an image whose centre, once scaled, is not before `start`."""
    return min(length, max(0, math.ceil((2 * start * length - scaled) / (2 * scaled))))


def linear_weights(place_n: Tensor, length: int) -> Tensor:
    """Return weights (n, length) that interpolate `length` values at some places.

    Places outside read the value at the nearest end.
    """
    place_n = place_n.clamp(0, length - 1)
    return (1 - (place_n[:, None] - torch.arange(length)).abs()).clamp(min=0).float()


def scale_part(image_chw: Tensor, scaled: tuple[int, int], rows: Span, columns: Span) -> Tensor:
    """Return some rows and columns of a uint8 image scaled to `scaled`.

    Only the pixels that they need are read.
    """
    height, width = image_chw.shape[1:]
    if (height, width) == tuple(scaled):
        return image_chw[:, slice(*rows), slice(*columns)]
    y, x = _needed_pixels(rows, height, scaled[0]), _needed_pixels(columns, width, scaled[1])
    half = (rows[0] + rows[1]) // 2
    if 3 * (y[1] - y[0]) * (x[1] - x[0]) > MOST_SAMPLES and rows[0] < half:
        halves = ((rows[0], half), (half, rows[1]))
        return torch.cat([scale_part(image_chw, scaled, some, columns) for some in halves], dim=1)
    part_chw = image_chw[:, slice(*y), slice(*x)].float()
    part_chw = _scale_axis(1, part_chw, y[0], rows, height, scaled[0])
    return _scale_axis(2, part_chw, x[0], columns, width, scaled[1]).round_().to(torch.uint8)


def _needed_pixels(span: Span, length: int, scaled: int) -> Span:
    first, last = (edge * length / scaled for edge in span)
    return max(0, math.floor(first) - 1), min(length, math.ceil(last) + 1)


def _scale_axis(
    dim: int, part_chw: Tensor, offset: int, span: Span, length: int, scaled: int
) -> Tensor:
    """Scale one axis of a part of an image that begins `offset` pixels into it."""
    if length == scaled:
        return part_chw.narrow(dim, span[0] - offset, span[1] - span[0])
    step, device = length / scaled, part_chw.device
    out_n = torch.arange(*span, dtype=torch.float64)  # on the CPU: not every GPU has float64
    size = part_chw.shape[dim]
    if scaled < AREA_BELOW * length:
        source_m = torch.arange(offset, offset + size)
        right_nm = torch.minimum((out_n[:, None] + 1) * step, source_m + 1)
        left_nm = torch.maximum(out_n[:, None] * step, source_m)
        weight_nm = (right_nm - left_nm).clamp(min=0).float() / step
        return (part_chw.movedim(dim, -1) @ weight_nm.T.to(device)).movedim(-1, dim)
    place_n = ((out_n + 0.5) * step - 0.5).clamp(0, length - 1) - offset
    low_n = place_n.long()
    high_n = (low_n + 1).clamp(max=size - 1)
    shape = [-1 if axis == dim else 1 for axis in range(3)]
    part_n = (place_n - low_n).float().view(shape).to(device)
    low_chw, high_chw = (part_chw.index_select(dim, n.to(device)) for n in (low_n, high_n))
    return low_chw.lerp_(high_chw, part_n)
