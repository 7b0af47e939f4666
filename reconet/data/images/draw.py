"""Draw labels in colours, alone or over their image, and encode masks as PNGs."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import cv2
import numpy as np
from PIL import Image as Pillow

from reconet.system.files import write_atomic
from reconet.types import IGNORE, Colour, Image, Label

VOID_COLOUR = (224, 224, 192)


def colourise(label_hw: Label, palette: Sequence[Colour]) -> Image:
    """Draw each label in its colour. Void pixels get VOID_COLOUR."""
    table_n3 = np.full((256, 3), VOID_COLOUR, np.uint8)
    table_n3[: len(palette)] = np.array(palette, np.uint8).reshape(-1, 3)
    return table_n3[label_hw]


def overlay(
    image_hwc: Image, label_hw: Label, palette: Sequence[Colour], alpha: float = 0.5
) -> Image:
    """Tint an image by its labels. Void, and classes in black (background), stay as they are."""
    tint_hwc = colourise(label_hw, palette)
    mixed_hwc = cv2.addWeighted(image_hwc, 1 - alpha, tint_hwc, alpha, 0)
    tinted_hw1 = (label_hw != IGNORE)[..., None] & tint_hwc.any(2, keepdims=True)
    return np.where(tinted_hw1, np.asarray(mixed_hwc, np.uint8), image_hwc)


def fit(image_hwc: Image, width: int, height: int) -> Image:
    """Shrink or enlarge an image to fit into a box, keeping the proportions."""
    zoom = min(width / image_hwc.shape[1], height / image_hwc.shape[0])
    size = max(1, round(image_hwc.shape[1] * zoom)), max(1, round(image_hwc.shape[0] * zoom))
    method = cv2.INTER_AREA if zoom < 1 else cv2.INTER_NEAREST
    return np.asarray(cv2.resize(image_hwc, size, interpolation=method), np.uint8)


def write_mask(path: Path, label_hw: Label, palette: Sequence[Colour]) -> None:
    """Write labels as a palette PNG, in one move."""
    write_atomic(path, lambda file: file.write(mask_png(label_hw, palette)))


def mask_png(label_hw: Label, palette: Sequence[Colour] = ()) -> bytes:
    """Encode labels as a PNG with 8 bits per pixel: with a palette, or as plain grey.

    Pillow packs a palette of few colours into fewer bits, which not every reader unpacks. So the
    palette is filled up with black.
    """
    image, file = Pillow.fromarray(label_hw), BytesIO()
    if palette:
        colours = bytes(value for colour in palette for value in colour)
        image.putpalette(colours.ljust(3 * 256, b"\0"))
    image.save(file, format="PNG")
    return file.getvalue()
