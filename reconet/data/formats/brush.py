"""Unpack the brush strokes of Label Studio, and pack them.

The bytes are a stream of bits: 32 for the number of values, 5 for the bits of a value (less one),
and four times 4 for the bits of a length (less one). Then there are blocks: a bit that tells
whether one value is repeated, two that choose one of the four sizes, the length (less one) in so
many bits, and the value, or all values. They are the red, green, blue and alpha of each pixel.
Pixels with alpha are inside.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reconet.data.formats.draw import Patch

CHANNELS = 4
SIZES = (3, 4, 8, 16)  # bits of a length, as Label Studio packs


class Brush(NamedTuple):
    """A brush stroke of Label Studio, as large as the image."""

    packed: bytes

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels of the stroke."""
        value_n = unpack(self.packed, height * width * CHANNELS)
        return Patch(0, 0, value_n.reshape(height, width, CHANNELS)[:, :, 3] > 0)


def unpack(packed: bytes, count: int) -> NDArray[np.uint8]:
    """Return `count` values, or raise if the stream has another number of them."""
    bits = _Bits(packed)
    total = bits.take(32)
    if total != count:
        raise ValueError(f"its brush has {total:,} values, not {count:,}: of another image?")
    size = bits.take(5) + 1
    if size != 8:
        raise ValueError(f"its brush has values of {size} bits, not 8")
    lengths = [bits.take(4) + 1 for _ in range(4)]
    value_n = np.zeros(total, np.uint8)
    place = 0
    while place < total:
        repeated = bits.take(1)
        end = place + 1 + bits.take(lengths[bits.take(2)])
        if end > total:
            raise ValueError("its brush is damaged")
        value_n[place:end] = bits.take(8) if repeated else bits.take_bytes(end - place)
        place = end
    return value_n


def pack(inside_hw: NDArray[np.bool_]) -> bytes:
    """Pack the pixels of a stroke, in runs of equal values."""
    inside_n = inside_hw.ravel()
    edges_n = np.flatnonzero(np.diff(inside_n)) + 1
    bits = [f"{CHANNELS * len(inside_n):032b}{8 - 1:05b}", *(f"{n - 1:04b}" for n in SIZES)]
    ends = [*edges_n.tolist(), len(inside_n)]
    for start, end in zip([0, *ends], ends, strict=False):
        value = f"{255 if inside_n[start] else 0:08b}"
        left = CHANNELS * (end - start)
        while left:
            count = min(left, 1 << SIZES[-1])
            size = next(n for n, most in enumerate(SIZES) if count <= 1 << most)
            bits.append(f"1{size:02b}{count - 1:0{SIZES[size]}b}{value}")
            left -= count
    text = "".join(bits)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8)


class _Bits:
    """A stream of bits, the highest of each byte first."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def take(self, count: int) -> int:
        """Return the next bits as a number."""
        start, end = self._place, self._place + count
        if end > 8 * len(self._data):
            raise ValueError("its brush is cut off")
        self._place = end
        number = int.from_bytes(self._data[start // 8 : (end + 7) // 8])
        return number >> (-end % 8) & ((1 << count) - 1)

    def take_bytes(self, count: int) -> NDArray[np.uint8]:
        """Return the next bytes, which begin at any bit."""
        start, end = self._place, self._place + 8 * count
        if end > 8 * len(self._data):
            raise ValueError("its brush is cut off")
        self._place = end
        some_n = np.frombuffer(self._data[start // 8 : (end + 7) // 8], np.uint8)
        return np.packbits(np.unpackbits(some_n)[start % 8 : start % 8 + 8 * count])
