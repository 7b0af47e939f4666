"""Read the plainest kind of PNG, faster than Pillow does.

That is 8 bits per pixel, one channel, rows neither filtered nor interlaced. VOC's masks are
written like this, and reading them is a part of the time that training spends on data. Anything
else is left to Pillow.
"""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, PALETTE = 0, 3  # kinds of colour
DEFLATE = 8  # the low half of the first byte of packed pixels
DICTIONARY = 0x20  # a flag in the second
# The checksum of the unpacked pixels takes a third of the reading time. Each chunk also has one of
# its packed bytes, which are few. Only that one is checked.
WITHOUT_CHECKSUM = -zlib.MAX_WBITS


def read_indexed_png(data: bytes, max_pixels: int) -> NDArray[np.uint8] | None:
    """Return the numbers in it, or None if it is of another kind or damaged in any way."""
    if data[:8] != SIGNATURE or data[12:16] != b"IHDR" or len(data) < 33:
        return None
    width, height, bits, colour, packing, filters, interlaced, check = struct.unpack(
        ">IIBBBBBI", data[16:33]
    )
    if zlib.crc32(data[12:29]) != check:
        return None
    plain = bits == 8 and colour in (GREY, PALETTE) and packing == filters == interlaced == 0
    if not plain or not 0 < width * height <= max_pixels:
        return None
    packed = _packed(data)
    if packed is None or packed[0] & 0x0F != DEFLATE or packed[1] & DICTIONARY:
        return None
    size = height * (width + 1)
    unpacker = zlib.decompressobj(WITHOUT_CHECKSUM)
    try:
        rows = unpacker.decompress(packed[2:], size)  # no more, whatever it would unpack to
        unpacker.decompress(unpacker.unconsumed_tail, 1)  # the end
    except zlib.error:
        return None
    if len(rows) != size or not unpacker.eof:
        return None
    row_hn = np.frombuffer(rows, np.uint8).reshape(height, width + 1)
    return None if row_hn[:, 0].any() else row_hn[:, 1:].copy()


def _packed(data: bytes) -> bytes | None:
    """Join the chunks of pixels, or return None if one is damaged or missing."""
    parts: list[bytes] = []
    place = 8
    while place + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        if kind == b"IEND":
            packed = b"".join(parts)
            return packed if len(packed) > 2 else None
        end = place + 12 + size
        if end > len(data):
            return None
        if kind == b"IDAT":
            if zlib.crc32(data[place + 4 : end - 4]) != int.from_bytes(data[end - 4 : end]):
                return None
            parts.append(data[place + 8 : end - 4])
        place = end
    return None
