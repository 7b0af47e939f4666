"""Read images, masks and MATLAB files that nobody has checked.

Whatever is wrong with a file, the error is a DataError of one line that names the file. It may be
missing, cut off, not an image, or a small file that unpacks to gigabytes.

For datasets the EXIF orientation is *not* applied. The masks of public datasets are in the raw
order of pixels, so an image that was turned would no longer fit its mask. Images without labels
are read upright, as a person sees them.

Pillow opens every file and tells its size. OpenCV decodes JPEGs and RGB PNGs: it is faster and
gives the same pixels. It returns a cut-off JPEG half grey without an error, so it gets only files
that end as a JPEG must. Pillow decodes the others, and reports the damage.
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from PIL import ImageOps, UnidentifiedImageError, features

from reconet.errors import DataError
from reconet.system.readable import counted
from reconet.system.reading import check_file, open_file, read_file
from reconet.types import Image, Label

MAX_PIXELS = 178_956_970  # where Pillow stops too: half a gigabyte of RGB
MAX_BYTES = 2**31
HEAD = 2**18  # bytes
MAX_DEFLATE = 1032  # the most bytes that one byte of a compressed file becomes
FORMATS = ("JPEG", "PNG", "BMP", "TIFF", "WEBP", "GIF", "PPM")  # none that runs another program
OPTIONAL = {".avif": "AVIF", ".heic": "HEIF", ".heif": "HEIF"}  # where a reader is installed
READERS = {"HEIF": "pillow-heif", "AVIF": "pillow>=11.3"}
HEIF_BRANDS = {  # in the first bytes of a file
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"hevc", b"mif1", b"msf1"), "HEIF"),
}
FAST = {("JPEG", "RGB"), ("JPEG", "L"), ("MPO", "RGB"), ("PNG", "RGB")}  # OpenCV decodes these
JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"
PNG_START = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
ORIENTATION = 0x0112  # the EXIF tag
# OpenCV writes about broken files to stderr; our own error is enough. (Versions 4 and 5 differ.)
(getattr(cv2, "setLogLevel", None) or cv2.utils.logging.setLogLevel)(0)


class Upright(NamedTuple):
    """An image as a person sees it: turned as its EXIF orientation says."""

    image_hwc: Image
    frames: int  # of an animation or a file of several pages, of which this is the first


class Frame(NamedTuple):
    """How the pixels of an image lie in its file, and how a person sees them."""

    stored: tuple[int, int]  # height and width
    turn: int  # EXIF orientation, 1 to 8

    @property
    def upright(self) -> tuple[int, int]:
        return self.stored[::-1] if self.turn >= 5 else self.stored


class TooManyPixelsError(DataError):
    """An image has more pixels than the reader allows, whatever the size of its file."""


class ColourMaskError(DataError):
    """A mask holds colours, not class numbers."""


@cache
def optional_formats() -> dict[str, str]:
    """Return the formats beside FORMATS that can be read here, by suffix."""
    readable = {"AVIF"} if features.check("avif") else set()
    if find_spec("pillow_heif") is not None:
        import_module("pillow_heif").register_heif_opener()
        readable.add("HEIF")
    return {suffix: name for suffix, name in OPTIONAL.items() if name in readable}


def read_image(path: Path) -> Image:
    """Read an image as RGB.

    Greyscale is repeated, CMYK and palettes are converted, alpha is dropped, and of 16-bit
    samples the high byte is kept.
    """
    data = _read(path)
    with _opened(data, path) as image:
        return _to_rgb(image, data)


def read_with_orientation(path: Path) -> tuple[Image, int]:
    """Read an image as `read_image` does, and the EXIF orientation that it has (1 to 8)."""
    data = _read(path)
    with _opened(data, path) as image:
        return _to_rgb(image, data), _orientation(image, data)


def read_upright(path: Path) -> Upright:
    """Read an image file as RGB, upright."""
    return _upright(_read(path), path, MAX_PIXELS)


def decode_upright(data: bytes, name: str, max_pixels: int = MAX_PIXELS) -> Image:
    """Decode an image that came as bytes, upright."""
    return _upright(data, name, max_pixels).image_hwc


def to_upright(image: Pillow.Image) -> Image:
    """Convert a Pillow image to RGB, upright."""
    try:
        return _to_rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # Pillow raises nearly anything while it decodes
        raise DataError(f"cannot read the image: {_reason(error)}.") from error


def turn_upright(pixels: NDArray[np.uint8], turn: int) -> NDArray[np.uint8]:
    """Turn an image, or labels with one channel, by an EXIF orientation."""
    if turn in (5, 6, 7, 8):
        pixels = pixels.swapaxes(0, 1)
    if turn in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if turn in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)


def read_frame(path: Path) -> Frame:
    """Return the size and the orientation of an image, without decoding its pixels."""
    head = _read(path, HEAD)
    if head.startswith(JPEG_START):  # a JPEG tells both there
        with suppress(DataError):  # unless its head is longer
            return _frame(head, path)
    return _frame(_read(path), path)


def read_mask(path: Path) -> Label:
    """Read the numbers in a mask: the indices of a palette, never its colours.

    A GIF has its greys instead: programs that write it number them anew in each file. A 1-bit mask
    has the numbers 0 and 1. A 16-bit mask may not go beyond 255.
    """
    data = _read(path)
    plain_hw = _plain_png(data, path)
    if plain_hw is not None:
        return plain_hw
    with _opened(data, path) as image:
        if image.format in ("JPEG", "MPO"):
            raise DataError(f"{path} is a JPEG, which blurs labels; save masks as PNG.")
        if image.format == "GIF":
            rgb_hwc = np.asarray(image.convert("RGB"))
            if (rgb_hwc == rgb_hwc[..., :1]).all():
                return rgb_hwc[..., 0].copy()
        elif image.mode in ("P", "L", "1"):
            return np.array(image).astype(np.uint8, copy=False)
        if not image.mode.startswith("I"):
            raise ColourMaskError(
                f"{path} is an image of mode {image.mode}, not a mask of class numbers; save it as "
                "an index or palette PNG, or read it with dataset `folder` and its option "
                "`colours`."
            )
        wide_hw = np.asarray(image)
        outside_n = wide_hw[(wide_hw < 0) | (wide_hw > 255)]
        if outside_n.size:
            raise DataError(
                f"{path} is a 16-bit mask with value {outside_n.max()}; values over 255 in "
                f"{counted(outside_n.size, 'pixel')}; labels are 0 to 255."
            )
        return wide_hw.astype(np.uint8)


def read_mat(path: Path, key: str) -> NDArray[Any]:
    """Read one variable of a MATLAB file."""
    from scipy.io import loadmat, whosmat  # type: ignore[import-untyped]

    try:
        check_file(path, limit=MAX_BYTES)
        suspect = MAX_DEFLATE * path.stat().st_size > MAX_PIXELS  # looking first takes time
        shapes = [shape for name, shape, _ in whosmat(path) if name == key] if suspect else []
        if any(prod(shape) > MAX_PIXELS for shape in shapes):
            raise Pillow.DecompressionBombError
        variables = loadmat(path, variable_names=[key])
    except NotImplementedError as error:
        raise DataError(f"cannot read {path}: save it in MATLAB with -v7, not -v7.3.") from error
    except Exception as error:  # scipy raises nearly anything about bytes that it does not expect
        raise DataError(f"cannot read {path}: {_reason(error)}.") from error
    if key not in variables:
        raise DataError(f"{path} holds no variable {key!r}: is it a mask of this dataset?")
    return np.asarray(variables[key])


def _read(path: Path, most: int | None = None) -> bytes:
    """Read a file, or its first bytes."""
    try:
        if most is None:
            return read_file(path, limit=MAX_BYTES)
        with open_file(path, limit=MAX_BYTES) as file:
            return file.read(most)
    except OSError as error:
        raise DataError(f"cannot read {path}: {_reason(error)}.") from error


@contextmanager
def _opened(data: bytes, name: Path | str, max_pixels: int = MAX_PIXELS) -> Iterator[Pillow.Image]:
    """Open an image, and name its file in whatever goes wrong while it is open."""
    try:
        if not data:
            raise DataError(f"{name} is empty.")
        with Pillow.open(BytesIO(data), formats=_formats()) as image:
            if image.width * image.height > max_pixels:
                raise Pillow.DecompressionBombError
            yield image
    except DataError:
        raise
    except (Pillow.DecompressionBombError, Pillow.DecompressionBombWarning) as error:
        reason = f"it unpacks to more than {max_pixels:,} pixels (a decompression bomb?)"
        raise TooManyPixelsError(f"cannot read {name}: {reason}.") from error
    except Exception as error:  # Pillow raises nearly anything about bytes that it does not expect
        kind = HEIF_BRANDS.get(data[8:12]) if data[4:8] == b"ftyp" else None
        reason = _reason(error)
        if kind and kind not in optional_formats().values():
            reason = f"it is {kind}, and no reader of it is installed (pip install {READERS[kind]})"
        raise DataError(f"cannot read {name}: {reason}.") from error


def _to_rgb(image: Pillow.Image, data: bytes = b"") -> Image:
    """Decode an open image to RGB: by OpenCV from its bytes, where that is safe, or by Pillow."""
    whole = image.format == "PNG" or data.endswith(JPEG_END)  # OpenCV notices a broken PNG itself
    if data and whole and (image.format, image.mode) in FAST:
        flags = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
        image_hwc = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if image_hwc is not None:
            return np.asarray(image_hwc, np.uint8)
    if image.mode == "F":
        raise ValueError("it holds floating-point samples; save it with 8 or 16 bits")
    if image.mode.startswith("I"):  # 16 bits, or 32 that hold 16
        wide_hw = np.asarray(image)
        if wide_hw.min() < 0 or wide_hw.max() > 0xFFFF:
            raise ValueError("it has samples of more than 16 bits; save it with 8 or 16")
        return np.repeat((wide_hw >> 8).astype(np.uint8)[..., None], 3, axis=2)
    if image.mode in ("P", "PA"):  # by way of RGBA: Pillow warns about transparency otherwise
        image = image.convert("RGBA")
    return np.array(image.convert("RGB"))


def _upright(data: bytes, name: Path | str, max_pixels: int) -> Upright:
    with _opened(data, name, max_pixels) as image:
        frames = _count_frames(image)
        image_hwc = _to_rgb(image, data)
        # Read the tag last: Pillow turns a TIFF itself, and removes the tag.
        return Upright(turn_upright(image_hwc, _orientation(image, data)), frames)


def _frame(data: bytes, path: Path) -> Frame:
    with _opened(data, path) as image:
        # Pillow turns a TIFF itself, whoever reads it.
        turn = 1 if image.format == "TIFF" else _orientation(image, data)
        return Frame((image.height, image.width), turn)


def _orientation(image: Pillow.Image, data: bytes) -> int:
    if image.format == "PNG" and b"eXIf" not in data:
        return 1  # Pillow would decode all of it to find out
    try:
        turn = int(image.getexif().get(ORIENTATION, 1))
        return turn if 1 <= turn <= 8 else 1
    except Exception:  # broken EXIF does not spoil the pixels
        return 1


def _count_frames(image: Pillow.Image) -> int:
    """Count the frames. A photograph with a preview or a second view in it (MPO) is one."""
    if image.format == "MPO":
        return 1
    try:
        frames = int(getattr(image, "n_frames", 1))
        image.seek(0)
    except Exception:  # a later frame is broken: the first may still be whole
        return 1
    return frames


def _plain_png(data: bytes, path: Path) -> Label | None:
    """Read a PNG of one channel with 8 bits, whose rows are neither filtered nor interlaced.

    VOC's masks are like this, and Pillow takes five times as long. It also overlooks pixels that
    do not match their checksum. Return None for any other file.
    """
    if data[:16] != PNG_START or len(data) < 33:
        return None
    width, height, *kind = struct.unpack(">IIBBBBB", data[16:29])
    plain = kind in ([8, 0, 0, 0, 0], [8, 3, 0, 0, 0]) and 0 < width * height <= MAX_PIXELS
    if not plain or zlib.crc32(data[12:29]) != int.from_bytes(data[29:33]):
        return None
    parts, place = [], 33
    while place + 8 <= len(data) and (name := data[place + 4 : place + 8]) != b"IEND":
        end = place + 12 + int.from_bytes(data[place : place + 4])
        if name == b"IDAT":
            parts.append(data[place + 8 : end - 4])
        place = end
    size = height * (width + 1)
    unpacker = zlib.decompressobj()
    try:
        rows = unpacker.decompress(b"".join(parts), size + 1)  # whatever it would unpack to
    except zlib.error as error:
        raise DataError(f"cannot read {path}: its pixels are damaged.") from error
    if len(rows) != size or not unpacker.eof:  # cut off: Pillow says so
        return None
    row_hw = np.frombuffer(rows, np.uint8).reshape(height, width + 1)
    return None if row_hw[:, 0].any() else row_hw[:, 1:].copy()  # the kind of filter comes first


def _formats() -> tuple[str, ...]:
    return (*FORMATS, *dict.fromkeys(optional_formats().values()))


def _reason(error: Exception) -> str:
    if isinstance(error, Pillow.DecompressionBombError):
        return "it unpacks to more than its size allows (a decompression bomb?)"
    if isinstance(error, UnidentifiedImageError):
        return f"it is no image of a known format ({', '.join(_formats())})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
