"""The fast reader reads what Pillow reads, or nothing."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from reconet.data.images.indexed_png import read_indexed_png

LIMIT = 10**6


def png(image: Image.Image, **options: object) -> bytes:
    file = BytesIO()
    image.save(file, format="PNG", **options)
    return file.getvalue()


def noise(height: int, width: int, mode: str) -> Image.Image:
    index_hw = np.random.default_rng(height).integers(0, 200, (height, width), dtype=np.uint8)
    image = Image.fromarray(index_hw)
    if mode == "P":
        image.putpalette(bytes(range(256)) * 3)
    return image


@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 500), (97, 41), (300, 301)])
def test_a_palette_is_read_as_by_pillow(height: int, width: int) -> None:
    image = noise(height, width, "P")
    index_hw = read_indexed_png(png(image), LIMIT)
    assert index_hw is not None
    np.testing.assert_array_equal(index_hw, np.array(image))
    assert index_hw.flags.writeable


def test_what_is_not_plain_is_left_to_pillow() -> None:
    grey_hw = np.tile(np.arange(100, dtype=np.uint8), (80, 1))  # which encoders filter
    others = [
        png(Image.fromarray(grey_hw)),
        png(Image.fromarray(np.zeros((5, 6, 3), np.uint8))),
        png(Image.fromarray(np.zeros((5, 6), bool))),
        png(Image.fromarray(np.zeros((5, 6), np.uint16))),
        png(noise(5, 6, "P"))[:-30],
        b"GIF89a",
        b"",
    ]
    for data in others:
        assert read_indexed_png(data, LIMIT) is None


def test_a_size_beyond_the_limit_is_not_unpacked() -> None:
    assert read_indexed_png(png(noise(30, 40, "P")), 30 * 40 - 1) is None


def test_a_damaged_file_is_never_read_as_something_else() -> None:
    """Read a damaged file correctly or not at all: checksums guard the size and the pixels."""
    whole = png(noise(30, 40, "P"))
    right_hw = np.array(noise(30, 40, "P"))
    for place in range(len(whole)):
        spoilt = bytearray(whole)
        spoilt[place] ^= 1 << place % 8
        for data in (bytes(spoilt), whole[:place]):
            got_hw = read_indexed_png(data, LIMIT)
            assert got_hw is None or np.array_equal(got_hw, right_hw)
