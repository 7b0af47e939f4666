import numpy as np
import pytest

from reconet.data.widths import region_widths, width_counts, widths_of


@pytest.mark.parametrize("width", [1, 3, 7, 15])
def test_a_straight_line_has_its_width(width: int) -> None:
    mask_hw = np.zeros((60, 90), bool)
    mask_hw[20 : 20 + width] = True
    assert np.median(region_widths(mask_hw)) == width
    assert np.median(region_widths(mask_hw.T)) == width


def test_a_slanted_line_has_about_its_width() -> None:
    row, column = np.mgrid[:200, :200]
    mask_hw = np.abs(row - column) <= 5 * np.sqrt(2) / 2  # 5 across
    assert np.median(region_widths(mask_hw)) == pytest.approx(5, abs=1)


def test_images_add_up_and_the_thin_ones_are_told() -> None:
    masks = np.zeros((3, 50, 50), bool)
    masks[0, 5:8], masks[1, 5:16], masks[2, 5:16] = True, True, True
    found = widths_of(width_counts(mask_hw) for mask_hw in masks)
    assert found is not None
    assert (found.median, found.thin) == (11, 3)


def test_a_class_that_fills_an_image_is_as_wide_as_it_is_and_an_absent_one_has_no_width() -> None:
    assert width_counts(np.ones((30, 50), bool)) == {30: 1}
    assert widths_of([width_counts(np.zeros((9, 9), bool))]) is None
