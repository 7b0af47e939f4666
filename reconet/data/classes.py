"""Class names from plain text, and colours for any number of classes."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from reconet.types import Colour

BACKGROUND = "background"
STEPS = range(0, 241, 40)  # of red, green and blue, from which distinct colours are taken
SRGB_TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)
AVOIDED = ((0, 0, 0), (255, 255, 255), (224, 224, 192))  # background, paper, void in drawings


def class_names(text: str) -> tuple[str, ...]:
    """Split names at their commas. Line breaks count as spaces."""
    return tuple(" ".join(text.split()).split(", "))


def colour_map(count: int, first: int = 0) -> tuple[Colour, ...]:
    """Return `count` entries of the PASCAL VOC colour map, from entry `first` on.

    The bits of the number, three at a time from the lowest, become the bits of red, green and
    blue, from the highest. So neighbouring numbers get very different colours. Entry 0 is black,
    for a background.
    """
    return tuple(_colour(number) for number in range(first, first + count))


def _colour(number: int) -> Colour:
    red = green = blue = 0
    for place in range(8):
        red |= (number >> (3 * place) & 1) << (7 - place)
        green |= (number >> (3 * place + 1) & 1) << (7 - place)
        blue |= (number >> (3 * place + 2) & 1) << (7 - place)
    return red, green, blue


@cache
def distinct_colours(count: int) -> tuple[Colour, ...]:
    """Return colours that people can tell apart, none of them black, white or that of void.

    Each is the one that differs most from all before it. So the first n are the same for every
    count.
    """
    grid_n3 = np.stack(np.meshgrid(STEPS, STEPS, STEPS, indexing="ij"), -1).reshape(-1, 3)
    colour_n3 = np.concatenate([np.array(AVOIDED), grid_n3])
    lab_n3 = _as_seen(colour_n3)
    distance_n = np.full(len(colour_n3), np.inf)
    chosen: list[Colour] = []
    for step in range(len(AVOIDED) + count):
        index = step if step < len(AVOIDED) else int(distance_n.argmax())
        red, green, blue = colour_n3[index].tolist()
        chosen.append((red, green, blue))
        # Rounded, so that machines that differ in the last bit choose the same colours.
        nearer_n = np.linalg.norm(lab_n3 - lab_n3[index], axis=1).round(2)
        distance_n = np.minimum(distance_n, nearer_n)
    return tuple(chosen[len(AVOIDED) :])


def default_palette(classes: Sequence[str]) -> tuple[Colour, ...]:
    """Return colours that are easy to tell apart. A background that comes first is black."""
    chosen = distinct_colours(len(classes))
    return ((0, 0, 0), *chosen[:-1]) if classes[0] == BACKGROUND else chosen


def _as_seen(colour_n3: NDArray[np.int64]) -> NDArray[np.float64]:
    """Convert sRGB to CIE Lab, where distances are about as large as they look."""
    share_n3 = colour_n3 / 255
    linear_n3 = np.where(share_n3 > 0.04045, ((share_n3 + 0.055) / 1.055) ** 2.4, share_n3 / 12.92)
    xyz_n3 = linear_n3 @ SRGB_TO_XYZ.T / SRGB_TO_XYZ.sum(1)
    x_n, y_n, z_n = np.where(xyz_n3 > 0.008856, np.cbrt(xyz_n3), 7.787 * xyz_n3 + 16 / 116).T
    return np.stack([116 * y_n - 16, 500 * (x_n - y_n), 200 * (y_n - z_n)], 1)
