"""Draw labels in colours, alone or over their image, and encode masks as PNGs."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from reconet.data.classes import photograph_palette
from reconet.system.files import write_atomic
from reconet.system.readable import printable
from reconet.types import IGNORE, Colour, Image, Label

VOID_COLOUR = (224, 224, 192)
STRIP_ROWS = 256  # of an overlay that are mixed at once
NAME_SIDE = 512  # pixels of the copy in which places for names are looked for
NAMED_SIDE = 200  # pixels of the longer side of an image in which names can be read
LARGE = 0.01  # part of an image that a region needs to get a name


def colourise(label_hw: Label, palette: Sequence[Colour]) -> Image:
    """Draw each label in its colour. Void pixels get VOID_COLOUR."""
    table_n3 = np.full((256, 3), VOID_COLOUR, np.uint8)
    table_n3[: len(palette)] = np.array(palette, np.uint8).reshape(-1, 3)
    return table_n3[label_hw]


def overlay(
    image_hwc: Image,
    label_hw: Label,
    palette: Sequence[Colour],
    names: Sequence[str] = (),
    alpha: float = 0.45,
) -> Image:
    """Tint and outline the classes in an image, and write their names into large regions.

    Void, and classes in black (background), stay as they are. The colours are those of
    `photograph_palette`. Lines and letters grow with the image.
    """
    colours = photograph_palette(tuple(palette))
    mixed_hwc, present = np.empty_like(image_hwc), set[int]()
    for top in range(0, len(label_hw), STRIP_ROWS):  # so that a huge image needs no third copy
        rows = slice(top, top + STRIP_ROWS)
        tint_hwc = colourise(label_hw[rows], colours)
        tinted_hw1 = (label_hw[rows] != IGNORE)[..., None] & tint_hwc.any(2, keepdims=True)
        blend_hwc = cv2.addWeighted(image_hwc[rows], 1 - alpha, tint_hwc, alpha, 0)
        mixed_hwc[rows] = np.where(tinted_hw1, np.asarray(blend_hwc, np.uint8), image_hwc[rows])
        present |= set(np.unique(label_hw[rows]).tolist())
    shown = [k for k in sorted(present) if k < len(colours) and any(colours[k])]
    line = max(1, round(max(label_hw.shape) / 500))
    outlines = {k: _outlines((label_hw == k).view(np.uint8), line) for k in shown}
    for width, white in ((line + 2 * max(1, line // 2), True), (line, False)):
        for k, outline in outlines.items():
            colour = (255, 255, 255) if white else colours[k]
            cv2.drawContours(mixed_hwc, outline, -1, colour, width, cv2.LINE_AA)
    if names and max(label_hw.shape) >= NAMED_SIDE:
        _write_names(mixed_hwc, label_hw, {k: names[k] for k in shown})
    return mixed_hwc


def _outlines(region_hw: Label, line: int) -> list[NDArray[np.int32]]:
    """Return the outlines of a region and its holes, without dots. None runs along the border."""
    edge = 2 * line + 1
    wider_hw = cv2.copyMakeBorder(region_hw, edge, edge, edge, edge, cv2.BORDER_REPLICATE)
    found, _ = cv2.findContours(
        wider_hw, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE, offset=(-edge, -edge)
    )
    return [np.asarray(one, np.int32) for one in found if cv2.arcLength(one, True) >= 8 * line]


def _write_names(image_hwc: Image, label_hw: Label, names: Mapping[int, str]) -> None:
    """Write the names of classes where their large regions are widest, the largest first.

    A name that does not fit, or would cover another one, is left out.
    """
    height, width = label_hw.shape
    size = max(11, round(max(height, width) / 36))
    font, edge = ImageFont.load_default(size), max(1, size // 8)
    taken = np.zeros_like(label_hw, bool)
    for label, x, y, room in _large_regions(label_hw, names):
        text = printable(names[label])
        box = font.getbbox(text, stroke_width=edge)
        wide, tall = math.ceil(box[2] - box[0]), math.ceil(box[3] - box[1])
        left = min(max(0, x - wide // 2), width - wide)
        top = min(max(0, y - tall // 2), height - tall)
        place = slice(top, top + tall), slice(left, left + wide)
        if wide > min(width, 2 * room) or tall > height or taken[place].any():
            continue
        taken[place] = True
        part_hwc = image_hwc[place]
        tile = Pillow.fromarray(part_hwc)
        ImageDraw.Draw(tile).text(
            (-box[0], -box[1]), text, "white", font, stroke_width=edge, stroke_fill="black"
        )
        part_hwc[:] = np.asarray(tile)


def _large_regions(label_hw: Label, labels: Iterable[int]) -> Iterator[tuple[int, int, int, int]]:
    """Yield label, the x and y farthest from the edge, and width of large regions, largest first.

    They are looked for in a small copy.
    """
    step = -(-max(label_hw.shape) // NAME_SIDE)
    small_hw, found = np.ascontiguousarray(label_hw[::step, ::step]), []
    for label in labels:
        _, part_hw, stats_n5, _ = cv2.connectedComponentsWithStats(
            (small_hw == label).view(np.uint8)
        )
        for part, (*_, wide, _, area) in enumerate(stats_n5.tolist()):
            if part and area >= LARGE * small_hw.size:
                depth_hw = cv2.distanceTransform(
                    np.pad(part_hw == part, 1).view(np.uint8), cv2.DIST_L2, 5
                )
                y, x = divmod(int(depth_hw.argmax()), depth_hw.shape[1])
                found.append((area, label, step * (x - 1), step * (y - 1), step * wide))
    for _, label, x, y, wide in sorted(found, reverse=True):
        yield label, x, y, wide


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
