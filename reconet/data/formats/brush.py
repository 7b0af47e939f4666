"""Unpack the brush strokes of Label Studio, and pack them.

The bytes are a stream of bits: 32 for the number of values, 5 for the bits of a value (less one),
and four times 4 for the bits of a length (less one). Then there are blocks: a bit that tells
whether one value is repeated, two that choose one of the four sizes, the length (less one) in so
many bits, and the value, or all values. They are the red, green, blue and alpha of each pixel.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconet.data.formats.draw import Patch, Region

CHANNELS = 4
SIZES = (3, 4, 8, 16)  # bits of a length, as Label Studio packs


@dataclass(frozen=True, slots=True)
class Brush(Region):
    """A brush stroke, as large as the image. Pixels with alpha are inside."""

    packed: bytes

    def patch(self, height: int, width: int) -> Patch:
        """Return the pixels of the stroke."""
        value_n = unpack(self.packed, height * width * CHANNELS)
        return Patch(0, 0, value_n.reshape(height, width, CHANNELS)[:, :, 3] > 0)


def unpack(packed: bytes, count: int) -> NDArray[np.uint8]:
    """Return `count` values, or raise if the stream has another number of them."""
    at = 0

    def take(bits: int) -> int:
        """Return the next bits as a number."""
        nonlocal at
        start, at = at, at + bits
        if at > 8 * len(packed):
            raise ValueError("its brush is cut off")
        number = int.from_bytes(packed[start // 8 : (at + 7) // 8])
        return number >> (-at % 8) & ((1 << bits) - 1)

    total = take(32)
    if total != count:
        raise ValueError(f"its brush has {total:,} values, not {count:,}: of another image?")
    if take(5) != 8 - 1:
        raise ValueError("its brush has values of other than 8 bits")
    lengths = [take(4) + 1 for _ in range(4)]
    value_n = np.zeros(total, np.uint8)
    place = 0
    while place < total:
        repeated = take(1)
        end = place + 1 + take(lengths[take(2)])
        if end > total:
            raise ValueError("its brush is damaged")
        values = 1 if repeated else end - place
        value_n[place:end] = np.frombuffer(take(8 * values).to_bytes(values), np.uint8)
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
