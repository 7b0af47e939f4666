"""Class names from plain text, and colours for any number of classes."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from reconet.types import Colour

STEPS = range(0, 241, 40)  # of red, green and blue, from which distinct colours are taken
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
    distance_n = np.full(len(colour_n3), np.iinfo(np.int64).max)
    chosen: list[Colour] = []
    for step in range(len(AVOIDED) + count):
        index = step if step < len(AVOIDED) else int(distance_n.argmax())
        red, green, blue = colour_n3[index].tolist()
        chosen.append((red, green, blue))
        distance_n = np.minimum(distance_n, _seen_distance(colour_n3, colour_n3[index]))
    return tuple(chosen[len(AVOIDED) :])


def _seen_distance(colour_n3: NDArray[np.int64], colour_3: NDArray[np.int64]) -> NDArray[np.int64]:
    """Weigh the squared differences as the eye does: green most, red more than blue in reds.

    In whole numbers, so that it is the same on every machine.
    """
    red_n = (colour_n3[:, 0] + colour_3[0]) // 2
    red2_n, green2_n, blue2_n = ((colour_n3 - colour_3) ** 2).T
    distance_n: NDArray[np.int64] = (
        (512 + red_n) * red2_n + 1024 * green2_n + (767 - red_n) * blue2_n
    )
    return distance_n
