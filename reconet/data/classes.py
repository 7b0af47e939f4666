"""Class names from plain text, and colours for any number of classes."""

from reconet.types import Colour


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
