"""Reading images and maps between their pixels. Pixel centres keep their places, as everywhere.

Of an image `length` long that is scaled to `scaled`, pixel t of the result lies at

    (t + 0.5) * length / scaled - 0.5

and is the linear mean of its two neighbours or, shrunk to less than half, the mean over its area:
what training does too.
"""

import math

import torch
from torch import Tensor

from reconet.data.transforms import AREA_BELOW

MOST_SAMPLES = 2**24  # in fp32 at once; of an image that is shrunk a lot a window needs very many

Span = tuple[int, int]  # first, last + 1


def first_centre(start: int, length: int, scaled: int) -> int:
    """The first pixel of an image whose centre, once scaled, is not before `start`."""
    return min(length, max(0, math.ceil((2 * start * length - scaled) / (2 * scaled))))


def read_at(place_n: Tensor, length: int) -> Tensor:
    """Weights (n, length) that read `length` values at some places, linearly; outside, the ends."""
    place_n = place_n.clamp(0, length - 1)
    return (1 - (place_n[:, None] - torch.arange(length)).abs()).clamp(min=0).float()


def zoomed(image_chw: Tensor, scaled: tuple[int, int], rows: Span, columns: Span) -> Tensor:
    """Some rows and columns of a uint8 image scaled to `scaled`; only what they need is read."""
    height, width = image_chw.shape[1:]
    if (height, width) == tuple(scaled):
        return image_chw[:, slice(*rows), slice(*columns)]
    y, x = _needed(rows, height, scaled[0]), _needed(columns, width, scaled[1])
    half = (rows[0] + rows[1]) // 2
    if 3 * (y[1] - y[0]) * (x[1] - x[0]) > MOST_SAMPLES and rows[0] < half:
        halves = ((rows[0], half), (half, rows[1]))
        return torch.cat([zoomed(image_chw, scaled, some, columns) for some in halves], dim=1)
    part_chw = image_chw[:, slice(*y), slice(*x)].float()
    part_chw = _along(1, part_chw, y[0], rows, height, scaled[0])
    return _along(2, part_chw, x[0], columns, width, scaled[1]).round_().to(torch.uint8)


def _needed(span: Span, length: int, scaled: int) -> Span:
    """The source pixels that pixels of the scaled image are made of."""
    first, last = (edge * length / scaled for edge in span)
    return max(0, math.floor(first) - 1), min(length, math.ceil(last) + 1)


def _along(dim: int, part_chw: Tensor, offset: int, span: Span, length: int, scaled: int) -> Tensor:
    """Scale one axis of a part of an image that begins `offset` pixels into it."""
    if length == scaled:
        return part_chw.narrow(dim, span[0] - offset, span[1] - span[0])
    step = length / scaled
    out_n = torch.arange(*span, dtype=torch.float64, device=part_chw.device)
    size = part_chw.shape[dim]
    if scaled < AREA_BELOW * length:
        source_m = torch.arange(offset, offset + size, device=part_chw.device)
        right_nm = torch.minimum((out_n[:, None] + 1) * step, source_m + 1)
        left_nm = torch.maximum(out_n[:, None] * step, source_m)
        weight_nm = (right_nm - left_nm).clamp(min=0).float() / step
        return (part_chw.movedim(dim, -1) @ weight_nm.T).movedim(-1, dim)
    place_n = ((out_n + 0.5) * step - 0.5).clamp(0, length - 1) - offset
    low_n = place_n.long()
    high_n = (low_n + 1).clamp(max=size - 1)
    shape = [-1 if axis == dim else 1 for axis in range(3)]
    part_n = (place_n - low_n).float().view(shape)
    low_chw, high_chw = (part_chw.index_select(dim, index_n) for index_n in (low_n, high_n))
    return low_chw.lerp_(high_chw, part_n)
