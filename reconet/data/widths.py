"""Measure how thin the regions of a class are, from masks.

The distance transform says how far each pixel is from the outside of its region. On the middle line
of a region it is half its width. Lengths of the middle line count alike, so a long thin wire has
more say than a short thick one.

Dimensions: h, w rows and columns, m pixels of middle lines.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray


class Widths(NamedTuple):
    """Widths of the regions of a class, in pixels of the masks: lower decile and median."""

    thin: int  # a tenth of the middle lines is at most as wide
    median: int

    def __str__(self) -> str:
        return f"{self.median} (thin: {self.thin})"


def width_counts(mask_hw: NDArray[np.bool_]) -> Counter[int]:
    """Count the pixels of the middle lines of regions by the width of the region there."""
    width_w, count_w = np.unique(region_widths(mask_hw), return_counts=True)
    return Counter(dict(zip(width_w.tolist(), count_w.tolist(), strict=True)))


def region_widths(mask_hw: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the width at each pixel of the middle lines. The border of the image is no edge."""
    if mask_hw.all():
        return np.full(1, min(mask_hw.shape), np.int64)
    near_hw = cv2.distanceTransform(mask_hw.astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    ridge_hw = mask_hw & (near_hw >= cv2.dilate(near_hw, np.ones((3, 3), np.uint8)))
    return np.asarray(np.rint(2 * near_hw[ridge_hw] - 1), np.int64)


def widths_of(counts: Iterable[Mapping[int, int]]) -> Widths | None:
    """Return the widths of a class from the counts of all images. None if it occurs in none."""
    total = Counter[int]()
    for count in counts:
        total.update(count)
    if not total:
        return None
    width_w = np.array(sorted(total))
    share_w = np.cumsum([total[int(width)] for width in width_w]) / total.total()
    thin, median = (int(width_w[np.searchsorted(share_w, part)]) for part in (0.1, 0.5))
    return Widths(thin, median)
