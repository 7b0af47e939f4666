"""Rows of images: errors, and labels that stay labels when they shrink."""

import numpy as np

from reconet.report.image_rows import ERROR_COLOUR, VOID_COLOUR, draw_errors, make_image_row
from reconet.types import IGNORE


def test_errors_are_the_labelled_pixels_that_differ() -> None:
    image_hwc = np.full((2, 2, 3), 90, np.uint8)
    truth_hw = np.array([[0, 1], [IGNORE, IGNORE]], np.uint8)
    predicted_hw = np.array([[0, 0], [0, 1]], np.uint8)
    result = draw_errors(image_hwc, truth_hw, predicted_hw)
    assert tuple(result[0, 1]) == ERROR_COLOUR
    assert tuple(result[1, 0]) == tuple(result[1, 1]) == VOID_COLOUR
    assert tuple(result[0, 0]) not in (ERROR_COLOUR, VOID_COLOUR)
    assert make_image_row("a", image_hwc, truth_hw, predicted_hw).accuracies == (0.5,)


def test_a_large_image_is_shrunk_and_no_label_invented() -> None:
    rng = np.random.default_rng(0)
    image_hwc = rng.integers(0, 256, (400, 900, 3), np.uint8)
    label_hw = np.where(rng.random((400, 900)) < 0.5, 3, 9).astype(np.uint8)
    small = make_image_row("a", image_hwc, label_hw, label_hw)
    assert small.image_hwc.shape == (142, 320, 3)
    assert small.truth_hw.shape == (142, 320)
    assert set(np.unique(small.truth_hw)) == {3, 9}
    assert small.accuracies == (1.0,)
