"""Masks as files."""

from pathlib import Path

import numpy as np

from reconet.data.images.read import read_mask
from reconet.data.images.write import write_mask


def test_masks_have_eight_bits_a_pixel_however_few_the_classes(tmp_path: Path) -> None:
    label_hw = np.array([[0, 1, 1], [1, 0, 1]], np.uint8)
    write_mask(tmp_path / "a.png", label_hw, ((0, 0, 0), (9, 8, 7)))
    header = (tmp_path / "a.png").read_bytes()[16:26]
    assert (header[8], header[9]) == (8, 3)  # bits, and the kind: a palette
    assert np.array_equal(read_mask(tmp_path / "a.png"), label_hw)
