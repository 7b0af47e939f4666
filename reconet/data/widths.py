"""Measure how thin the regions of each class are, from their masks.

The distance transform says how far each pixel is from the outside of its region. On the middle line
of a region it is half its width. Lengths of the middle line count alike, so a long thin wire has
more say than a short thick one.

Dimensions: h, w rows and columns, k classes, m pixels of middle lines.
"""

from collections.abc import Iterable
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from reconet.types import Label

LONGEST = 1024  # wider counts as this wide


class Widths(NamedTuple):
    """Widths of the regions of a class, in pixels of the images: median and lower decile."""

    median: float
    thin: float  # a tenth of the middle lines is thinner


def width_counts(label_hw: Label, classes: int) -> NDArray[np.int64]:
    """Count the pixels of middle lines of one image by class and width: count_kw."""
    counts_kw = np.zeros((classes, LONGEST + 1), np.int64)
    for k in np.unique(label_hw):
        if k < classes:
            width_m = region_widths(label_hw == k)
            counts_kw[k] += np.bincount(np.minimum(width_m, LONGEST), minlength=LONGEST + 1)
    return counts_kw


def region_widths(mask_hw: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the width at each pixel of the middle lines. The border of the image is no edge."""
    if mask_hw.all():
        return np.full(1, min(mask_hw.shape), np.int64)
    near_hw = cv2.distanceTransform(mask_hw.astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    ridge_hw = mask_hw & (near_hw >= cv2.dilate(near_hw, np.ones((3, 3), np.uint8)))
    return np.asarray(np.rint(2 * near_hw[ridge_hw] - 1), np.int64)


def widths(counts: Iterable[NDArray[np.int64]]) -> list[Widths | None]:
    """Sum the counts of images, and return the widths of each class. None for an absent one."""
    total_kw = sum(counts, start=np.zeros((1, LONGEST + 1), np.int64))
    return [_quantiles(count_w) if count_w.any() else None for count_w in total_kw]


def _quantiles(count_w: NDArray[np.int64]) -> Widths:
    share_w = count_w.cumsum() / count_w.sum()
    return Widths(*(float(np.searchsorted(share_w, part)) for part in (0.5, 0.1)))
