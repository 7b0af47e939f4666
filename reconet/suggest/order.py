"""Order images by several figures at once: by the mean of their ranks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def order_by_ranks(columns: Sequence[Sequence[float]]) -> list[int]:
    """Return the places of images, those first whose figures are large in all columns.

    An image has a rank in each column, 1 for the largest figure. Equal figures share the mean of
    their ranks. The mean rank decides, then the first column, then the order of the images.
    """
    mean_n = np.mean([ranks(column) for column in columns], axis=0)
    first = columns[0]
    return sorted(range(len(first)), key=lambda n: (mean_n[n], -first[n], n))


def ranks(column: Sequence[float]) -> NDArray[np.float64]:
    """Return the rank of each figure, 1 for the largest."""
    value_n = np.asarray(column, np.float64)
    sorted_n = np.sort(-value_n)
    first_n = np.searchsorted(sorted_n, -value_n, side="left")
    last_n = np.searchsorted(sorted_n, -value_n, side="right")
    return (first_n + 1 + last_n) / 2
