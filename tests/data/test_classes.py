"""Names of classes and their colours."""

from itertools import combinations

import cv2
import numpy as np
import pytest

from reconet.data.classes import (
    AVOIDED,
    class_names,
    colour_map,
    distinct_colours,
    photograph_palette,
)
from reconet.types import Colour


def test_names_are_split_at_commas_whatever_the_line_breaks() -> None:
    assert class_names("sky,\n    potted plant, tv\n monitor") == (
        *("sky", "potted plant", "tv monitor"),
    )


def test_colours_are_those_of_the_devkit_of_voc() -> None:
    known = {0: (0, 0, 0), 1: (128, 0, 0), 2: (0, 128, 0), 3: (128, 128, 0), 4: (0, 0, 128)}
    known |= {8: (64, 0, 0), 15: (192, 128, 128), 20: (0, 64, 128), 255: (224, 224, 192)}
    colours = colour_map(256)
    assert {number: colours[number] for number in known} == known
    assert len(set(colours)) == 256
    assert colour_map(3, first=2) == colours[2:5]


def least_difference(colours: tuple[Colour, ...]) -> float:
    """Measure how much the two most similar colours differ, as people see it."""
    rgb_1n3 = np.array([colours], np.float32) / 255
    lab_n3 = cv2.cvtColor(rgb_1n3, cv2.COLOR_RGB2Lab)[0]
    return min(float(np.linalg.norm(one - other)) for one, other in combinations(lab_n3, 2))


@pytest.mark.parametrize("count", [20, 100, 254])
def test_colours_of_classes_can_be_told_apart(count: int) -> None:
    colours = distinct_colours(count)
    assert len(colours) == count
    assert not set(colours) & set(AVOIDED)
    assert least_difference(colours) > least_difference(colour_map(count, first=1))


def test_more_classes_do_not_change_the_first_colours() -> None:
    assert distinct_colours(30)[:7] == distinct_colours(7)


def test_dark_or_similar_colours_give_way_on_photographs_and_others_stay() -> None:
    voc, bright = colour_map(21), distinct_colours(20)
    assert photograph_palette(voc) == ((0, 0, 0), *bright)
    assert photograph_palette(bright[::-1]) == bright[::-1]
    alike = ((0, 0, 0), (200, 0, 0), (204, 0, 0))
    assert photograph_palette(alike) == ((0, 0, 0), *bright[:2])
    assert photograph_palette(((0, 0, 0),)) == ((0, 0, 0),)
