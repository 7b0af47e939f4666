"""Images and masks: read whatever they are, named if they are broken, drawn and written."""

import warnings
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from reconet.data.classes import photograph_palette
from reconet.data.images.draw import VOID_COLOUR, colourise, fit, overlay, write_mask
from reconet.data.images.read import (
    ORIENTATION,
    read_frame,
    read_image,
    read_mask,
    read_mat,
    read_upright,
)
from reconet.data.images.sheets import GAP, Tile, sheet
from reconet.errors import DataError
from reconet.types import IGNORE
from tests.data.trees import save_mat
from tests.factories import smooth_image

RGB = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8).repeat(8, 0).repeat(8, 1)
GREY = RGB[..., 0]
PNG_MODES = ("RGB", "L", "1", "P", "RGBA", "LA", "I;16")
KINDS = [(mode, ".png") for mode in PNG_MODES] + [
    *((mode, ".tif") for mode in (*PNG_MODES, "CMYK", "YCbCr")),
    *((mode, ".jpg") for mode in ("RGB", "L", "CMYK")),
]
PALETTE = ((0, 0, 0), (200, 0, 0), (0, 0, 200))
LABEL_HW = np.array([[0, 1, 2], [1, 2, IGNORE]], np.uint8)


def saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize(("mode", "suffix"), KINDS)
def test_every_image_comes_out_as_rgb(tmp_path: Path, mode: str, suffix: str) -> None:
    wide = Image.fromarray(GREY.astype(np.uint16) * 257)
    image = wide if mode == "I;16" else Image.fromarray(RGB).convert(mode)
    image_hwc = read_image(saved(tmp_path / f"a{suffix}", image))
    assert image_hwc.dtype == np.uint8
    assert image_hwc.flags.writeable
    plain = Image.fromarray(GREY) if mode == "I;16" else image.convert("RGB")
    difference_hwc = np.abs(image_hwc.astype(int) - np.asarray(plain.convert("RGB")))
    assert difference_hwc.mean() < (12 if suffix == ".jpg" else 1e-9)


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("trailer", [b"", b"\0trailer"])  # OpenCV decodes the one, Pillow the other
def test_both_decoders_give_the_same_pixels(
    tmp_path: Path, mode: str, progressive: bool, trailer: bytes
) -> None:
    image = Image.fromarray(RGB).convert(mode)
    path = saved(tmp_path / "a.jpg", image, quality=80, progressive=progressive)
    with Image.open(path) as by_pillow:
        expected_hwc = np.asarray(by_pillow.convert("RGB"))
    path.write_bytes(path.read_bytes() + trailer)
    np.testing.assert_array_equal(read_image(path), expected_hwc)


def test_sixteen_bits_keep_the_high_byte_and_alpha_is_dropped(tmp_path: Path) -> None:
    wide = saved(tmp_path / "wide.png", Image.fromarray(GREY.astype(np.uint16) * 256 + 77))
    np.testing.assert_array_equal(read_image(wide)[..., 2], GREY)
    transparent = np.concatenate([RGB, np.zeros_like(RGB[..., :1])], axis=2)
    alpha = saved(tmp_path / "alpha.png", Image.fromarray(transparent))
    np.testing.assert_array_equal(read_image(alpha), RGB)


def test_a_palette_with_transparency_is_no_warning(tmp_path: Path) -> None:
    image = Image.fromarray(GREY % 4)
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90, 1, 2, 3])
    path = saved(tmp_path / "a.png", image, transparency=b"\x00\x80\xff\xff")
    assert tuple(read_image(path)[GREY % 4 == 1][0]) == (40, 50, 60)
    np.testing.assert_array_equal(read_mask(path), GREY % 4)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif", ".webp"])
@pytest.mark.parametrize("turn", range(10))  # 0 and 9 mean nothing
def test_images_stand_upright_as_pillow_would_turn_them(
    tmp_path: Path, turn: int, suffix: str
) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = turn
    path = tmp_path / f"turned{suffix}"
    profile = b"p" * (
        300_000 if suffix == ".jpg" and turn % 2 else 9
    )  # a long head, or a short one
    Image.fromarray(smooth_image(1)).save(path, exif=exif, icc_profile=profile)
    with Image.open(path) as image:
        expected_hwc = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    got_hwc, frame = read_upright(path).image_hwc, read_frame(path)
    assert got_hwc.shape == (*frame.upright, 3) == ((44, 30, 3) if 4 < turn < 9 else (30, 44, 3))
    assert np.abs(got_hwc.astype(int) - expected_hwc).max() <= 2
    assert frame.stored == read_image(path).shape[:2], "for datasets nothing is turned"
    if suffix != ".tif":  # Pillow turns it whenever it reads it
        assert read_image(path).shape == (30, 44, 3)
        assert frame.turn == (turn if 1 <= turn <= 8 else 1)


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
@pytest.mark.parametrize("keep", [0.3, 0.7, 0.98])
def test_a_truncated_image_is_named(tmp_path: Path, suffix: str, keep: float) -> None:
    noise_hwc = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    path = saved(tmp_path / f"cut{suffix}", Image.fromarray(noise_hwc))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    if suffix == ".jpg":
        assert cv2.imread(str(path)) is not None, "OpenCV alone would not notice"
    with pytest.raises(DataError, match=r"cannot read .*cut") as caught:
        read_image(path)
    assert "\n" not in str(caught.value)


def test_a_photograph_of_a_phone_names_the_package_that_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconet.data.images.read.optional_formats", dict)
    path = tmp_path / "photo.heic"
    path.write_bytes(b"\0\0\0\x18ftypheic" + bytes(64))
    with pytest.raises(DataError, match=r"it is HEIF, .* \(pip install pillow-heif\)"):
        read_image(path)


def test_files_that_are_no_images_are_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("<html>not found</html>")
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "folder.jpg").mkdir()
    saved(tmp_path / "float.tif", Image.fromarray(GREY.astype(np.float32)))
    for name, reason in {
        "text.jpg": "no image of a known format",
        "empty.jpg": "is empty",
        "folder.jpg": "it is a folder",
        "missing.jpg": "no such file",
        "float.tif": "floating-point samples|mode F, not a mask",
    }.items():
        for read in (read_image, read_mask):
            with pytest.raises(DataError, match=reason) as caught:
                read(tmp_path / name)
            assert name in str(caught.value)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("side", [10_000, 20_000])  # Pillow warns of the one, refuses the other
def test_a_decompression_bomb_is_refused(tmp_path: Path, side: int) -> None:
    buffer = BytesIO()
    Image.new("L", (8, 8)).save(buffer, format="PNG")
    data = bytearray(buffer.getvalue())
    data[16:24] = side.to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    jpeg = BytesIO()
    Image.new("RGB", (41, 30)).save(jpeg, format="JPEG")
    place = jpeg.getvalue().index(b"\xff\xc0") + 5
    lying = jpeg.getvalue()[:place] + b"\xff" * 4 + jpeg.getvalue()[place + 4 :]
    for name, content in (("bomb.png", bytes(data)), ("bomb.jpg", lying)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}.*decompression bomb"):
            read_image(tmp_path / name)


def test_a_large_image_below_the_limit_is_not_a_bomb(tmp_path: Path) -> None:
    path = saved(tmp_path / "large.png", Image.new("L", (9500, 9500)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert read_mask(path).shape == (9500, 9500)


NOISE = np.random.default_rng(1).integers(0, 200, (97, 41), dtype=np.uint8)
FILTERED = np.tile(np.arange(100, dtype=np.uint8), (80, 1))  # rows that encoders filter
MASKS = [GREY, GREY.astype(np.uint16), GREY > 100, NOISE, NOISE[:1, :1], FILTERED]


@pytest.mark.parametrize("number_hw", MASKS)
def test_masks_are_read_as_numbers(tmp_path: Path, number_hw: Any) -> None:
    path = saved(tmp_path / "a.png", Image.fromarray(number_hw))
    np.testing.assert_array_equal(read_mask(path), number_hw.astype(np.uint8))
    assert read_mask(path).dtype == np.uint8
    assert read_mask(path).flags.writeable


def test_a_damaged_mask_is_never_read_as_something_else(tmp_path: Path) -> None:
    """Read a damaged file correctly or not at all: checksums guard the size and the pixels."""
    path = tmp_path / "a.png"
    write_mask(path, NOISE, PALETTE)
    whole = path.read_bytes()
    for place in range(0, len(whole), 5):
        spoilt = bytearray(whole)
        spoilt[place] ^= 1 << place % 8
        for data in (bytes(spoilt), whole[:place]):
            path.write_bytes(data)
            try:
                read_hw = read_mask(path)
            except DataError:
                continue
            assert np.array_equal(read_hw, NOISE)


def test_palette_masks_survive_writing_and_have_eight_bits_a_pixel(tmp_path: Path) -> None:
    write_mask(tmp_path / "a.png", GREY % 2, ((0, 0, 0), (9, 8, 7)))
    header = (tmp_path / "a.png").read_bytes()[16:26]
    assert (header[8], header[9]) == (8, 3)  # bits, and the kind: a palette
    np.testing.assert_array_equal(read_mask(tmp_path / "a.png"), GREY % 2)
    assert set(map(tuple, read_image(tmp_path / "a.png").reshape(-1, 3))) == {(0, 0, 0), (9, 8, 7)}


def test_masks_that_cannot_be_right_are_refused(tmp_path: Path) -> None:
    wide_hw = np.zeros((4, 4), np.uint16)
    wide_hw[0, :3] = 300
    for name, image, message in (
        ("wide.png", Image.fromarray(wide_hw), r"wide.png .* 300; values over 255 in 3 pixels"),
        ("mask.jpg", Image.fromarray(GREY), "is a JPEG, which blurs labels"),
        ("rgb.png", Image.fromarray(RGB), "rgb.png is an image of mode RGB, not a mask"),
        ("la.png", Image.fromarray(RGB).convert("LA"), "la.png is an image of mode LA, not a mask"),
    ):
        with pytest.raises(DataError, match=message):
            read_mask(saved(tmp_path / name, image))


def test_mat_files(tmp_path: Path) -> None:
    save_mat(tmp_path / "a.mat", S=GREY)
    np.testing.assert_array_equal(read_mat(tmp_path / "a.mat", "S"), GREY)
    with pytest.raises(DataError, match=r"a.mat holds no variable 'LabelMap'"):
        read_mat(tmp_path / "a.mat", "LabelMap")
    (tmp_path / "broken.mat").write_bytes((tmp_path / "a.mat").read_bytes()[:200])
    (tmp_path / "text.mat").write_text("nothing of the kind " * 20)
    for name in ("broken.mat", "text.mat", "missing.mat"):
        with pytest.raises(DataError, match=f"cannot read .*{name}") as caught:
            read_mat(tmp_path / name, "S")
        assert "\n" not in str(caught.value)


def test_each_label_has_its_colour_and_void_its_own() -> None:
    image_hwc = colourise(LABEL_HW, PALETTE)
    for y, x in np.ndindex(2, 3):
        label = LABEL_HW[y, x]
        assert tuple(image_hwc[y, x]) == (VOID_COLOUR if label == IGNORE else PALETTE[label])


def test_an_overlay_tints_outlines_and_names_classes_but_leaves_void_and_black_ones() -> None:
    image_hwc, label_hw = np.full((300, 400, 3), 100, np.uint8), np.zeros((300, 400), np.uint8)
    label_hw[100:, 100:300], label_hw[:50, :50] = 1, IGNORE
    mixed_hwc = overlay(image_hwc, label_hw, PALETTE, alpha=0.25)
    colour = photograph_palette(PALETTE)[1]
    assert np.abs(mixed_hwc[150, 150] - (75 + 0.25 * np.array(colour))).max() <= 1
    assert (mixed_hwc[label_hw == IGNORE] == 100).all(), "void"
    assert (mixed_hwc[60:90] == 100).all(), "background, which is black"
    edge_n3 = mixed_hwc[150, 97:103]
    assert (edge_n3 == 255).all(1).any()
    assert (np.abs(edge_n3 - np.array(colour)).max(1) < 30).any()
    assert (mixed_hwc[299, 200] == mixed_hwc[150, 150]).all(), "no line along the border"
    named_hwc = overlay(image_hwc, label_hw, PALETTE, ["ground", "a road", "sea"], alpha=0.25)
    y_n, x_n = (named_hwc != mixed_hwc).any(2).nonzero()
    assert 100 < y_n.min() < y_n.max() < 300
    assert 100 < x_n.min() < x_n.max() < 300
    assert (image_hwc == 100).all()


def test_lines_and_names_of_an_overlay_grow_with_the_image() -> None:
    def drawn(zoom: int) -> list[float]:
        label_hw = np.zeros((200 * zoom, 300 * zoom), np.uint8)
        label_hw[50 * zoom :, 50 * zoom : 250 * zoom] = 1
        image_hwc = np.full((*label_hw.shape, 3), 100, np.uint8)
        pages = [overlay(image_hwc, label_hw, PALETTE, n, 0.0) for n in ((), ("a", "road", "b"))]
        counts = (pages[0] != image_hwc).any(2).sum(), (pages[0] != pages[1]).any(2).sum()
        return [float(count) for count in counts]

    (line, name), (line4, name4) = drawn(2), drawn(8)
    assert 6 < line4 / line < 32
    assert 8 < name4 / name < 32


def test_fit_keeps_the_proportions_and_one_pixel_at_least() -> None:
    assert fit(np.zeros((50, 100, 3), np.uint8), 40, 40).shape == (20, 40, 3)
    assert fit(np.zeros((5, 10, 3), np.uint8), 40, 40).shape == (20, 40, 3)
    assert fit(np.zeros((1, 1000, 3), np.uint8), 40, 40).shape == (1, 40, 3)


def test_a_sheet_shows_every_image_and_every_colour_of_the_legend() -> None:
    red_hwc, green_hwc = (np.full((30, 40, 3), c, np.uint8) for c in ((250, 1, 1), (1, 250, 1)))
    names = [("a class with a stränge name é", (1, 1, 250)), ("b", (250, 1, 250))]
    page_hwc = sheet([Tile("one", [red_hwc]), Tile("two", [green_hwc]), Tile("none", [])], names)
    for colour, pixels in (((250, 1, 1), 1200), ((1, 250, 1), 1200)):
        assert (page_hwc == colour).all(2).sum() == pixels
    for _, colour in names:
        assert (page_hwc == colour).all(2).sum() > 50
    assert page_hwc.shape[1] > 2 * (40 + GAP)
    assert sheet([], []).ndim == 3
