"""Augment a training sample: random scale, mirror and crop.

The result is as if the image was scaled so that its long side is base_size times a random factor,
mirrored or not, padded at the right and below where it is smaller than the crop, and cropped at a
random place. The work is done in the other order: `choose_window` decides which window of the
source the crop shows, and only that window is resampled.

The grid: on each axis, pixel i of the result samples the source at

    start + (offset + i + 0.5) / zoom - 0.5

with pixel centres at the integers and integer `start` and `offset`. Because `start` is an
integer, the window is a slice and cv2.resize does the work. Because `offset` output pixels in
front of it are computed and dropped, no pixel of the crop lacks its neighbour. The price: a
window lies up to half an output pixel from where it was chosen. Image and label use the same grid,
so there is no shift between them.

Labels take the nearest source pixel. Images are bilinear. If they shrink to less than half, they
take the mean over the area of each pixel: bilinear looks at four pixels, which is enough down to
a half.
"""

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from reconet.data.changes import change_crop, draw_chances, size_before
from reconet.data.dataset import Sample
from reconet.recipes.schema import Augment, Data
from reconet.types import IGNORE, MEAN_COLOUR, Image, Label

NOTHING = Augment()
AREA_BELOW = 0.5  # zoom


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """Settings of the training crops. The names are those of the recipe's `data` settings."""

    crop: tuple[int, int]  # height, width
    base_size: int = 520  # length of the long side that a scale of 1 means
    scale: tuple[float, float] = (0.5, 2.0)
    flip: bool = True
    augment: Augment = field(default=NOTHING, repr=False)  # all that changes.py does

    @classmethod
    def of(cls, data: Data) -> Self:
        """Return how training images of a recipe are augmented."""
        return cls(
            crop=data.crop,
            base_size=data.base_size,
            scale=data.scale,
            flip=data.flip,
            augment=data.augment,
        )

    def key(self) -> str:
        """Return a text for the key of a cache. Changes that are off are not in it."""
        changes = self.augment.model_dump(exclude_defaults=True)
        return f"{self!r} {changes}" if changes else repr(self)


class AxisWindow(NamedTuple):
    """The window on one axis: `length` output pixels, from `offset` after `start` on."""

    start: int  # source pixels
    stop: int
    offset: int  # output pixels
    length: int
    zoom: float  # output pixels per source pixel


class Window(NamedTuple):
    """The part of a source that a crop shows."""

    rows: AxisWindow
    columns: AxisWindow
    mirrored: bool


def augment(sample: Sample, augmentation: Augmentation, rng: np.random.Generator) -> Sample:
    """Return a random crop. The same generator state gives the same crop."""
    crop = void_crop(sample.name, augmentation)
    crop_into(crop, sample, augmentation, rng)
    return crop


def crop_into(
    crop: Sample, sample: Sample, augmentation: Augmentation, rng: np.random.Generator
) -> tuple[int, int]:
    """Write a random crop at the top left of `crop`, and return its size.

    The rest of `crop` stays as it was.
    """
    if augmentation.augment != NOTHING:
        return _changed_into(crop, sample, augmentation, rng)
    window = choose_window(sample.label_hw.shape, augmentation, rng)
    height, width = window.rows.length, window.columns.length
    crop_image(sample.image_hwc, window, crop.image_hwc[:height, :width])
    crop_label(sample.label_hw, window, crop.label_hw[:height, :width])
    return height, width


def _changed_into(
    crop: Sample, sample: Sample, augmentation: Augmentation, rng: np.random.Generator
) -> tuple[int, int]:
    """Write a random crop that is also changed in other ways, and return its size."""
    settings, chance = augmentation.augment, draw_chances(rng)
    before = replace(augmentation, crop=size_before(augmentation.crop, settings, chance))
    window = choose_window(sample.label_hw.shape, before, rng)
    size = window.rows.length, window.columns.length
    image_hwc, label_hw = np.empty((*size, 3), np.uint8), np.empty(size, np.uint8)
    crop_image(sample.image_hwc, window, image_hwc)
    crop_label(sample.label_hw, window, label_hw)
    image_hwc, label_hw = change_crop(image_hwc, label_hw, augmentation.crop, settings, chance)
    height, width = label_hw.shape
    crop.image_hwc[:height, :width] = image_hwc
    crop.label_hw[:height, :width] = label_hw
    return height, width


def void_crop(name: str, augmentation: Augmentation) -> Sample:
    """Return a crop of padding only, in place of an image that cannot be read."""
    image_hwc = np.full((*augmentation.crop, 3), MEAN_COLOUR, np.uint8)
    return Sample(name, image_hwc, np.full(augmentation.crop, IGNORE, np.uint8))


def choose_window(
    size: tuple[int, ...], augmentation: Augmentation, rng: np.random.Generator
) -> Window:
    """Choose what to show of an image of `size` (height, width). Always draws four numbers."""
    low, high = augmentation.scale
    scale, top, left, mirror = rng.random(4).tolist()
    zoom = augmentation.base_size * (low + (high - low) * scale) / max(size)
    longest = max(map(min, size, augmentation.crop))
    if abs(zoom - 1) * longest < 1:
        zoom = 1.0  # less than a pixel over the whole window, which cv2.resize would leave out
    return Window(
        rows=place_window(size[0], zoom, augmentation.crop[0], top),
        columns=place_window(size[1], zoom, augmentation.crop[1], left),
        mirrored=augmentation.flip and mirror < 0.5,
    )


def place_window(size: int, zoom: float, crop: int, position: float) -> AxisWindow:
    """Place a window of `crop` output pixels, `position` (0 to 1) of the way along one axis."""
    zoom = max(zoom, 1 / size)  # an image of 1 x 700 keeps its one row
    scaled = round(size * zoom)
    length = min(crop, scaled)
    first = int(position * (scaled - length + 1))
    start = max(0, int(first / zoom) - 1)
    offset = round(first - start * zoom)
    stop = min(size, math.ceil(start + (offset + length) / zoom) + 1)
    offset = min(offset, round((stop - start) * zoom) - length)  # rounding at the far end
    return AxisWindow(start, stop, offset, length, zoom)


def crop_image(image_hwc: Image, window: Window, out_hwc: Image) -> None:
    rows, columns, mirrored = window
    source_hwc = image_hwc[rows.start : rows.stop, columns.start : columns.stop]
    method = cv2.INTER_AREA if min(rows.zoom, columns.zoom) < AREA_BELOW else cv2.INTER_LINEAR
    zoomed_hwc = cv2.resize(source_hwc, None, fx=columns.zoom, fy=rows.zoom, interpolation=method)
    bottom, right = rows.offset + rows.length, columns.offset + columns.length
    crop_hwc = zoomed_hwc[rows.offset : bottom, columns.offset : right]
    if mirrored:
        cv2.flip(crop_hwc, 1, dst=out_hwc)
    else:
        out_hwc[:] = crop_hwc


def crop_label(label_hw: Label, window: Window, out_hw: Label) -> None:
    rows, columns, mirrored = window
    source_hw = label_hw[rows.start : rows.stop, columns.start : columns.stop]
    column_w = nearest(columns)[::-1] if mirrored else nearest(columns)
    source_wh = cv2.transpose(source_hw)  # picking rows twice is faster than picking columns
    out_hw[:] = cv2.transpose(source_wh[column_w])[nearest(rows)]


def nearest(axis: AxisWindow) -> NDArray[np.intp]:
    """Return the source pixel nearest to each output pixel, from the start of the window on."""
    position_n = (np.arange(axis.offset, axis.offset + axis.length) + 0.5) / axis.zoom
    return np.minimum(position_n.astype(np.intp), axis.stop - axis.start - 1)
