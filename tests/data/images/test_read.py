import warnings
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from reconet.data.images.jpeg_header import END, jpeg_size
from reconet.data.images.read import read_image, read_mask, read_mat
from reconet.data.images.write import write_mask
from reconet.errors import DataError
from tests.data.trees import save_mat

RGB = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8).repeat(8, 0).repeat(8, 1)
GREY = RGB[..., 0]


def saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


PNG_MODES = ("RGB", "L", "1", "P", "RGBA", "LA", "I;16")
KINDS = [(mode, ".png") for mode in PNG_MODES] + [
    *((mode, ".tif") for mode in (*PNG_MODES, "CMYK", "YCbCr")),
    *((mode, ".jpg") for mode in ("RGB", "L", "CMYK")),
]


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


@pytest.mark.parametrize(
    ("suffix", "options"), [(".png", {}), (".bmp", {}), (".webp", {"lossless": True})]
)
def test_lossless_images_keep_their_pixels(
    tmp_path: Path, suffix: str, options: dict[str, object]
) -> None:
    path = saved(tmp_path / f"a{suffix}", Image.fromarray(RGB), **options)
    np.testing.assert_array_equal(read_image(path), RGB)


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("progressive", [False, True])
def test_both_decoders_give_the_same_pixels(tmp_path: Path, mode: str, progressive: bool) -> None:
    image = Image.fromarray(RGB).convert(mode)
    path = saved(tmp_path / "a.jpg", image, quality=80, progressive=progressive)
    with Image.open(path) as by_pillow:
        np.testing.assert_array_equal(read_image(path), np.asarray(by_pillow.convert("RGB")))


def test_bytes_after_the_end_of_a_jpeg_do_no_harm(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", Image.fromarray(RGB))
    whole_hwc = read_image(path)
    path.write_bytes(path.read_bytes() + b"\0trailer")
    np.testing.assert_array_equal(read_image(path), whole_hwc)


def test_sixteen_bits_keep_the_high_byte_and_alpha_is_dropped(tmp_path: Path) -> None:
    wide = saved(tmp_path / "wide.png", Image.fromarray(GREY.astype(np.uint16) * 256 + 77))
    np.testing.assert_array_equal(read_image(wide)[..., 2], GREY)
    transparent = np.concatenate([RGB, np.zeros_like(RGB[..., :1])], axis=2)
    alpha = saved(tmp_path / "alpha.png", Image.fromarray(transparent))
    np.testing.assert_array_equal(read_image(alpha), RGB)


def test_a_palette_with_transparency_is_no_warning(tmp_path: Path) -> None:
    image = Image.fromarray(GREY % 4).convert("L")
    image.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90, 1, 2, 3])
    path = saved(tmp_path / "a.png", image, transparency=b"\x00\x80\xff\xff")
    assert tuple(read_image(path)[GREY % 4 == 1][0]) == (40, 50, 60)
    np.testing.assert_array_equal(read_mask(path), GREY % 4)


def test_orientation_is_not_applied(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # "turn it by 90 degrees"
    path = saved(tmp_path / "a.jpg", Image.fromarray(RGB), exif=exif)
    assert read_image(path).shape == RGB.shape


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


def test_a_cut_off_jpeg_is_noticed_even_where_opencv_accepts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "cut.jpg", Image.fromarray(RGB))
    path.write_bytes(path.read_bytes()[:-40])
    monkeypatch.setattr(cv2, "imdecode", lambda *_: np.full_like(RGB, 128))
    with pytest.raises(DataError, match=r"cannot read .*cut.jpg: .*truncated"):
        read_image(path)


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
    for name, reason in {
        "text.jpg": "no image of a known format",
        "empty.jpg": "is empty",
        "folder.jpg": "it is a folder",
        "missing.jpg": "no such file",
    }.items():
        for read in (read_image, read_mask):
            with pytest.raises(DataError, match=reason) as caught:
                read(tmp_path / name)
            assert name in str(caught.value)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("side", [10_000, 20_000])  # Pillow warns of the one, refuses the other
def test_a_decompression_bomb_is_refused(tmp_path: Path, side: int) -> None:
    buffer = BytesIO()
    Image.new("1", (8, 8)).save(buffer, format="PNG")
    data = bytearray(buffer.getvalue())
    data[16:24] = side.to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    (tmp_path / "bomb.png").write_bytes(data)
    with pytest.raises(DataError, match=r"bomb.png.*decompression bomb"):
        read_image(tmp_path / "bomb.png")


def test_a_large_image_below_the_limit_is_not_a_bomb(tmp_path: Path) -> None:
    path = saved(tmp_path / "large.png", Image.new("L", (9500, 9500)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert read_mask(path).shape == (9500, 9500)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_masks_are_read_as_numbers(tmp_path: Path, dtype: type[np.uint8] | type[np.uint16]) -> None:
    path = saved(tmp_path / "a.png", Image.fromarray(GREY.astype(dtype)))
    np.testing.assert_array_equal(read_mask(path), GREY)
    assert read_mask(path).dtype == np.uint8


def test_a_one_bit_mask_holds_zeros_and_ones(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.png", Image.fromarray(GREY > 100))
    np.testing.assert_array_equal(read_mask(path), (GREY > 100).astype(np.uint8))


def test_palette_masks_survive_writing_and_reading(tmp_path: Path) -> None:
    write_mask(tmp_path / "a.png", GREY, tuple((9, 9, 9) for _ in range(256)))
    np.testing.assert_array_equal(read_mask(tmp_path / "a.png"), GREY)
    assert (read_image(tmp_path / "a.png") == 9).all()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA"])
def test_a_coloured_mask_is_refused(tmp_path: Path, mode: str) -> None:
    path = saved(tmp_path / "mask.png", Image.fromarray(RGB).convert(mode))
    with pytest.raises(DataError, match=f"mask.png is an image of mode {mode}, not a mask"):
        read_mask(path)


def test_masks_that_cannot_be_right_are_refused(tmp_path: Path) -> None:
    wide_hw = np.zeros((4, 4), np.uint16)
    wide_hw[0, :3] = 300
    path = saved(tmp_path / "wide.png", Image.fromarray(wide_hw))
    with pytest.raises(DataError, match=r"wide.png .* 300; values over 255 in 3 pixels"):
        read_mask(path)
    with pytest.raises(DataError, match="is a JPEG, which blurs labels"):
        read_mask(saved(tmp_path / "mask.jpg", Image.fromarray(GREY)))


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


def test_the_size_of_a_jpeg_is_read_from_its_header() -> None:
    for mode, known in (("RGB", True), ("L", True), ("CMYK", False)):
        for options in ({}, {"progressive": True}, {"comment": b"a note"}, {"dpi": (300, 300)}):
            file = BytesIO()
            Image.new(mode, (41, 30)).save(file, format="JPEG", **options)
            data = file.getvalue()
            assert jpeg_size(data) == ((30, 41) if known else None)
            assert jpeg_size(data[:-1]) is None
            assert all(jpeg_size(data[:cut] + END) is None for cut in range(20))
    assert jpeg_size(b"") is None


def test_a_jpeg_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    file = BytesIO()
    Image.new("RGB", (41, 30)).save(file, format="JPEG")
    data = file.getvalue()
    place = data.index(b"\xff\xc0") + 5
    path = tmp_path / "huge.jpg"
    path.write_bytes(data[:place] + b"\xff\xff\xff\xff" + data[place + 4 :])
    with pytest.raises(DataError, match="decompression bomb"):
        read_image(path)
