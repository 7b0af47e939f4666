"""Images that a camera turned."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow
from PIL import ImageOps

from reconet.data.images.read import read_upright
from tests.factories import smooth_image


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp"])
def test_images_stand_upright_as_pillow_would_turn_them(
    tmp_path: Path, turn: int, suffix: str
) -> None:
    exif = Pillow.Exif()
    exif[0x0112] = turn
    path = tmp_path / f"turned{suffix}"
    Pillow.fromarray(smooth_image(1)).save(path, exif=exif)
    with Pillow.open(path) as image:
        expected_hwc = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    got_hwc = read_upright(path).image_hwc
    assert got_hwc.shape == ((44, 30, 3) if turn > 4 else (30, 44, 3))
    assert np.abs(got_hwc.astype(int) - expected_hwc).max() <= 2
