"""The training augmentation: a pure function of a sample, the geometry and a random generator.

What happens is: scale the image so that its long side is base_size times a random factor,
mirror it or not, pad it at the right and below where it is smaller than the crop, and cut out a
random crop. *How* it happens is the other way round: `draw` first decides which window of the
source the crop will show, and only that window is resampled.

The grid. On each axis, pixel i of the result samples the source at

    start + (offset + i + 0.5) / zoom - 0.5

with pixel centres at the integers and integer `start` and `offset`. Because `start` is an
integer, the window is a slice and cv2.resize does the work; because `offset` output pixels in
front of it are computed and dropped, no pixel of the crop misses its neighbour. The price: a
window lies up to half an output pixel from where it was drawn. Image and label use one grid, so
between them there is no shift at all.

Labels take the nearest source pixel. Images are bilinear, or, shrunk to less than half, the mean
over the area of each pixel (bilinear looks at four pixels, which is enough down to a half).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from reconet.data.dataset import Sample
from reconet.types import IGNORE, Image, Label

MEAN_COLOUR = (124, 116, 104)  # ImageNet's mean in RGB: padding that the model sees as about zero
AREA_BELOW = 0.5  # zoom


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """What a training crop looks like; the names are those of the recipe's `data` settings."""

    crop: tuple[int, int]  # height, width
    base_size: int = 520  # length of the long side that a scale of 1 means
    scale: tuple[float, float] = (0.5, 2.0)
    flip: bool = True


class Axis(NamedTuple):
    """The window on one axis: `length` output pixels, the first of them `offset` after `start`."""

    start: int  # source pixels
    stop: int
    offset: int  # output pixels
    length: int
    zoom: float  # output pixels per source pixel


class Window(NamedTuple):
    rows: Axis
    columns: Axis
    mirrored: bool


def augment(sample: Sample, geometry: Geometry, rng: np.random.Generator) -> Sample:
    """A random crop; the same generator state gives the same crop."""
    crop = void(sample.name, geometry)
    cut(sample, geometry, rng, crop)
    return crop


def cut(
    sample: Sample, geometry: Geometry, rng: np.random.Generator, crop: Sample
) -> tuple[int, int]:
    """The same, put at the top left of `crop`. Returns its size: what is beyond stays as it was."""
    window = draw(sample.label_hw.shape, geometry, rng)
    height, width = window.rows.length, window.columns.length
    cut_image(sample.image_hwc, window, crop.image_hwc[:height, :width])
    cut_label(sample.label_hw, window, crop.label_hw[:height, :width])
    return height, width


def void(name: str, geometry: Geometry) -> Sample:
    """A crop with nothing to learn from, in place of an image that cannot be read."""
    image_hwc = np.full((*geometry.crop, 3), MEAN_COLOUR, np.uint8)
    return Sample(name, image_hwc, np.full(geometry.crop, IGNORE, np.uint8))


def draw(size: tuple[int, ...], geometry: Geometry, rng: np.random.Generator) -> Window:
    """Decide what to show of an image of `size` (height, width). Always draws four numbers."""
    low, high = geometry.scale
    scale, top, left, mirror = rng.random(4).tolist()
    zoom = geometry.base_size * (low + (high - low) * scale) / max(size)
    shown = max(map(min, size, geometry.crop))
    if abs(zoom - 1) * shown < 1:
        zoom = 1.0  # less than a pixel over the whole window, which cv2.resize would leave out
    return Window(
        rows=place(size[0], zoom, geometry.crop[0], top),
        columns=place(size[1], zoom, geometry.crop[1], left),
        mirrored=geometry.flip and mirror < 0.5,
    )


def place(size: int, zoom: float, crop: int, position: float) -> Axis:
    """A window of `crop` output pixels, `position` (0 to 1) of the way along one axis."""
    zoom = max(zoom, 1 / size)  # an image of 1 x 700 keeps its one row
    scaled = round(size * zoom)
    length = min(crop, scaled)
    first = int(position * (scaled - length + 1))
    start = max(0, int(first / zoom) - 1)
    offset = round(first - start * zoom)
    stop = min(size, math.ceil(start + (offset + length) / zoom) + 1)
    offset = min(offset, round((stop - start) * zoom) - length)  # rounding at the far end
    return Axis(start, stop, offset, length, zoom)


def cut_image(image_hwc: Image, window: Window, out_hwc: Image) -> None:
    rows, columns, mirrored = window
    source_hwc = image_hwc[rows.start : rows.stop, columns.start : columns.stop]
    method = cv2.INTER_AREA if min(rows.zoom, columns.zoom) < AREA_BELOW else cv2.INTER_LINEAR
    zoomed_hwc = cv2.resize(source_hwc, None, fx=columns.zoom, fy=rows.zoom, interpolation=method)
    bottom, right = rows.offset + rows.length, columns.offset + columns.length
    cut_hwc = zoomed_hwc[rows.offset : bottom, columns.offset : right]
    if mirrored:
        cv2.flip(cut_hwc, 1, dst=out_hwc)
    else:
        out_hwc[:] = cut_hwc


def cut_label(label_hw: Label, window: Window, out_hw: Label) -> None:
    rows, columns, mirrored = window
    source_hw = label_hw[rows.start : rows.stop, columns.start : columns.stop]
    column_w = nearest(columns)[::-1] if mirrored else nearest(columns)
    source_wh = cv2.transpose(source_hw)  # picking rows twice is faster than picking columns
    out_hw[:] = cv2.transpose(source_wh[column_w])[nearest(rows)]


def nearest(axis: Axis) -> NDArray[np.intp]:
    """The source pixel nearest to each output pixel, counted from the start of the window."""
    position_n = (np.arange(axis.offset, axis.offset + axis.length) + 0.5) / axis.zoom
    return np.minimum(position_n.astype(np.intp), axis.stop - axis.start - 1)
