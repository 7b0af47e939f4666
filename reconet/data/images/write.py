"""Write masks as PNGs."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from PIL import Image as Pillow

from reconet.system.files import write_atomic
from reconet.types import Colour, Label


def write_mask(path: Path, label_hw: Label, palette: Sequence[Colour]) -> None:
    """Write labels as a palette PNG, in one move."""
    write_atomic(path, lambda file: file.write(mask_png(label_hw, palette)))


def mask_png(label_hw: Label, palette: Sequence[Colour]) -> bytes:
    """Encode labels as a palette PNG with 8 bits per pixel.

    Pillow packs a palette of few colours into fewer bits, which not every reader unpacks. So the
    palette is filled up with black.
    """
    image = Pillow.fromarray(label_hw)
    colours = bytes(value for colour in palette for value in colour)
    image.putpalette(colours.ljust(3 * 256, b"\0"))
    return _png(image)


def grey_png(label_hw: Label) -> bytes:
    """Encode labels as a PNG with one channel and no palette."""
    return _png(Pillow.fromarray(label_hw))


def _png(image: Pillow.Image) -> bytes:
    file = BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()
