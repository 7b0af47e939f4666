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
# Colours that can be told apart on photographs, where dark ones look like shadows.
BRIGHT: tuple[Colour, ...] = (
    *((230, 25, 75), (60, 180, 75), (255, 225, 25), (40, 130, 255), (255, 135, 30)),
    *((150, 60, 220), (70, 240, 240), (110, 90, 255), (190, 255, 50), (250, 170, 200)),
    *((0, 165, 150), (205, 165, 255), (175, 110, 45), (150, 255, 190), (240, 50, 230)),
    *((255, 95, 70), (150, 190, 255), (175, 175, 0), (255, 200, 140), (190, 60, 140)),
)
LEAST_LIGHT, LEAST_DISTANCE = 32, 15  # in Lab, for colours on photographs


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
    """Return BRIGHT, and after it further colours, none of them dark or that of void.

    Each further one is that which differs most from all before it. So the first n are the same for
    every count.
    """
    grid_n3 = np.stack(np.meshgrid(STEPS, STEPS, STEPS, indexing="ij"), -1).reshape(-1, 3)
    grid_n3 = grid_n3[_as_seen(grid_n3)[:, 0] > LEAST_LIGHT]
    given = (*AVOIDED, *BRIGHT)
    colour_n3 = np.concatenate([np.array(given), grid_n3])
    lab_n3 = _as_seen(colour_n3)
    distance_n = np.full(len(colour_n3), np.inf)
    chosen: list[Colour] = []
    for step in range(len(AVOIDED) + count):
        index = step if step < len(given) else int(distance_n.argmax())
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


@cache
def photograph_palette(palette: tuple[Colour, ...]) -> tuple[Colour, ...]:
    """Return colours for classes on photographs: their own, if these are light and differ enough.

    Otherwise all get colours by their number. Classes in black, such as a background, stay black:
    they are not drawn.
    """
    drawn = [number for number, colour in enumerate(palette) if any(colour)]
    lab_n3 = _as_seen(np.array([palette[number] for number in drawn]).reshape(-1, 3))
    apart_nn = np.linalg.norm(lab_n3[:, None] - lab_n3, axis=2) + 999 * np.eye(len(drawn))
    if (lab_n3[:, 0] > LEAST_LIGHT).all() and (apart_nn > LEAST_DISTANCE).all():
        return palette
    bright = dict(zip(drawn, distinct_colours(len(drawn)), strict=True))
    return tuple(bright.get(number, colour) for number, colour in enumerate(palette))


def _as_seen(colour_n3: NDArray[np.int64]) -> NDArray[np.float64]:
    """Convert sRGB to CIE Lab, where distances are about as large as they look."""
    share_n3 = colour_n3 / 255
    linear_n3 = np.where(share_n3 > 0.04045, ((share_n3 + 0.055) / 1.055) ** 2.4, share_n3 / 12.92)
    xyz_n3 = linear_n3 @ SRGB_TO_XYZ.T / SRGB_TO_XYZ.sum(1)
    x_n, y_n, z_n = np.where(xyz_n3 > 0.008856, np.cbrt(xyz_n3), 7.787 * xyz_n3 + 16 / 116).T
    return np.stack([116 * y_n - 16, 500 * (x_n - y_n), 200 * (y_n - z_n)], 1)
