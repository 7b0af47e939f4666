"""Scaling images and reading between pixels, against OpenCV and torch."""

import cv2
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from reconet.inference.resampling import first_centre, linear_weights, scale_part

SIDE = st.integers(1, 200)


@pytest.mark.parametrize("scaled", [(37, 53), (20, 53), (37, 29), (80, 100), (50, 30), (9, 12)])
def test_a_scaled_image_is_that_of_opencv(scaled: tuple[int, int]) -> None:
    # Bilinear, or the mean over the area where an axis shrinks to less than half.
    image_hwc = np.random.default_rng(0).integers(0, 256, (37, 53, 3), np.uint8)
    how = cv2.INTER_AREA if scaled == (9, 12) else cv2.INTER_LINEAR
    expected = cv2.resize(image_hwc.astype(np.float32), scaled[::-1], interpolation=how)
    image_chw = torch.from_numpy(image_hwc).permute(2, 0, 1)
    got_chw = scale_part(image_chw, scaled, (0, scaled[0]), (0, scaled[1]))
    difference = (got_chw.permute(1, 2, 0).float() - torch.from_numpy(expected)).abs()
    assert difference.max() <= 0.51  # rounded to bytes


@pytest.mark.parametrize("scaled", [(37, 53), (80, 100), (29, 40), (9, 12)])
def test_a_part_of_a_scaled_image_is_cut_out_of_the_whole(scaled: tuple[int, int]) -> None:
    image_chw = torch.randint(0, 256, (3, 37, 53), dtype=torch.uint8)
    whole_chw = scale_part(image_chw, scaled, (0, scaled[0]), (0, scaled[1]))
    part_chw = scale_part(image_chw, scaled, (3, 8), (2, scaled[1] - 1))
    difference = part_chw.int() - whole_chw[:, 3:8, 2:-1].int()
    assert difference.abs().max() <= 1  # where rounding meets a half
    assert (difference == 0).float().mean() > 0.99


def test_reading_at_the_pixels_of_a_larger_map_is_bilinear_upsampling() -> None:
    map_hw = torch.randn(5, 7)
    rows, columns = ((torch.arange(n) + 0.5) * m / n - 0.5 for n, m in ((40, 5), (61, 7)))
    got_hw = linear_weights(rows, 5) @ map_hw @ linear_weights(columns, 7).T
    expected = F.interpolate(map_hw[None, None], (40, 61), mode="bilinear", align_corners=False)
    torch.testing.assert_close(got_hw, expected[0, 0])


@given(SIDE, SIDE, st.integers(0, 200))
def test_first_centre_is_the_first_pixel_not_before_a_place(
    length: int, scaled: int, start: int
) -> None:
    centres = [pixel for pixel in range(length) if (2 * pixel + 1) * scaled >= 2 * start * length]
    assert first_centre(start, length, scaled) == (centres[0] if centres else length)


@pytest.mark.parametrize("scaled", [(7, 9), (40, 33), (90, 101)])
def test_large_images_are_read_in_parts_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch, scaled: tuple[int, int]
) -> None:
    image_chw = torch.randint(0, 256, (3, 61, 83), dtype=torch.uint8)
    rows, columns = (1, scaled[0] - 1), (2, scaled[1])
    whole_chw = scale_part(image_chw, scaled, rows, columns)
    monkeypatch.setattr("reconet.inference.resampling.MOST_SAMPLES", 900)
    parts_chw = scale_part(image_chw, scaled, rows, columns)
    assert parts_chw.shape == whole_chw.shape
    assert (parts_chw.int() - whole_chw.int()).abs().max() <= 1  # sums of another order, rounded
    assert (parts_chw == whole_chw).float().mean() > 0.99
