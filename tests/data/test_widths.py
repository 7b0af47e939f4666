import numpy as np
import pytest

from reconet.data.widths import region_widths, width_counts, widths


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


def test_the_widths_of_classes_are_told_apart() -> None:
    label_hw = np.zeros((100, 100), np.uint8)
    label_hw[10:13] = 1
    label_hw[40:80, 40:80] = 2
    label_hw[90:] = 255
    found = widths([width_counts(label_hw, 4)])
    assert found[1] is not None
    assert found[1].median == 3
    assert found[2] is not None
    assert found[2].median > 20
    assert found[3] is None


def test_images_add_up() -> None:
    thin, thick = np.zeros((50, 50), np.uint8), np.zeros((50, 50), np.uint8)
    thin[5:8], thick[5:16] = 1, 1
    found = widths([width_counts(one, 2) for one in (thin, thick, thick)])
    assert found[1] is not None
    assert (found[1].median, found[1].thin) == (11, 3)


def test_an_image_of_one_class_is_as_wide_as_it_is() -> None:
    found = widths([width_counts(np.zeros((30, 50), np.uint8), 1)])
    assert found[0] is not None
    assert found[0].median == 30
