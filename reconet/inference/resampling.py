"""Read images and feature maps between their pixels.

Pixel centres keep their places, as everywhere in the package. If an image of `length` pixels is
scaled to `scaled` pixels, the centre of pixel t of the result lies at

    (t + 0.5) * length / scaled - 0.5

in the image. Its value is the linear mean of the two neighbours. If the image shrinks to less
than half, its value is the mean over its area. Training does the same.
"""

import math

import torch
from torch import Tensor

from reconet.data.transforms import AREA_BELOW

# Floats read at once: a window of an image that shrinks a lot is made of very many pixels.
MOST_SAMPLES = 2**24

Span = tuple[int, int]  # first, last + 1


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
