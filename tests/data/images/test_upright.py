"""Images that a camera turned."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow
from PIL import ImageOps

from reconet.data.images.read import ORIENTATION, read_frame, read_image, read_upright
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


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp"])
@pytest.mark.parametrize("turn", range(10))  # 0 and 9 mean nothing
def test_a_frame_tells_how_an_image_is_stored_and_how_it_is_seen(
    tmp_path: Path, turn: int, suffix: str
) -> None:
    exif = Pillow.Exif()
    exif[ORIENTATION] = turn
    path = tmp_path / f"a{suffix}"
    profile = b"p" * (
        300_000 if suffix == ".jpg" and turn % 2 else 9
    )  # a long head, or a short one
    image = Pillow.fromarray(smooth_image(1, 20, 31))
    image.save(path, exif=exif, icc_profile=profile)
    frame = read_frame(path)
    assert frame.stored == read_image(path).shape[:2]
    assert frame.upright == read_upright(path).image_hwc.shape[:2]
    if suffix != ".tif":  # Pillow turns it whenever it reads it
        assert frame.turn == (turn if 1 <= turn <= 8 else 1)
