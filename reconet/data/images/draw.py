"""Draw labels in colours: alone, over their image, or as a sheet of several with a legend."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from reconet.data.dataset import Dataset, evenly_spaced
from reconet.errors import DataError
from reconet.system.files import write_atomic
from reconet.system.reading import TEXT_BYTES, open_file
from reconet.types import IGNORE, Colour, Image, Label

VOID_COLOUR = (224, 224, 192)
PAPER, INK = (255, 255, 255), (30, 30, 30)
SOFTWARE = "reconet sheet"  # in every sheet
LINE, GAP = 18, 8  # pixels: height of a line of text, space between things
FONT = 12


class Tile(NamedTuple):
    """A part of a sheet: images side by side under a caption."""

    caption: str
    images: Sequence[Image]


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


def sheet(tiles: Sequence[Tile], names: Sequence[tuple[str, Colour]], columns: int = 2) -> Image:
    """Arrange tiles in columns, with a legend of names and their colours below."""
    blocks = [_block(tile) for tile in tiles]
    width = max((block.width for block in blocks), default=0) + GAP
    height = max((block.height for block in blocks), default=0) + GAP
    columns = max(1, min(columns, len(blocks)))
    total_width = max(columns * width, 480) + GAP
    key = _legend(names, total_width - 2 * GAP)
    lines = -(-len(blocks) // columns)
    page = Pillow.new("RGB", (total_width, lines * height + key.height + 2 * GAP), PAPER)
    for number, block in enumerate(blocks):
        page.paste(block, (GAP + number % columns * width, GAP + number // columns * height))
    page.paste(key, (GAP, GAP + lines * height))
    return np.array(page)


def write_sheet(path: Path, tiles: Sequence[Tile], names: Sequence[tuple[str, Colour]]) -> None:
    """Write a sheet of tiles as a PNG."""
    page, marks = Pillow.fromarray(sheet(tiles, names)), PngInfo()
    marks.add_text("Software", SOFTWARE)
    write_atomic(path, lambda file: page.save(file, format="PNG", pnginfo=marks))


def is_sheet(path: Path) -> bool:
    """Tell whether a file is a sheet of this package, which a new one may replace."""
    with open_file(path, limit=TEXT_BYTES) as file:
        return SOFTWARE.encode() in file.read(512)


def contact_sheet(dataset: Dataset, path: Path, count: int = 8) -> None:
    """Write a PNG of a few images, each beside a copy tinted by its labels, with a legend."""
    info = dataset.info
    tiles, found = [], set()
    for index in evenly_spaced(len(dataset), count):
        try:
            name, image_hwc, label_hw = dataset[index]
        except DataError:
            tiles.append(Tile(f"{dataset.name(index)}: cannot be read", []))
            continue
        painted_hwc = overlay(image_hwc, label_hw, info.palette, alpha=0.6)
        tiles.append(Tile(name, [fit(image_hwc, 280, 210), fit(painted_hwc, 280, 210)]))
        found.update(np.unique(label_hw).tolist())
    legend = [(info.classes[label], info.palette[label]) for label in sorted(found - {IGNORE})]
    if IGNORE in found:
        legend.append(("(not labelled)", PAPER))
    write_sheet(path, tiles, legend)


def _block(tile: Tile) -> Pillow.Image:
    width = sum(image.shape[1] + GAP for image in tile.images)
    height = max((image.shape[0] for image in tile.images), default=0)
    block = Pillow.new("RGB", (max(width, 240), LINE + height), PAPER)
    _write(block, (0, 0), tile.caption)
    left = 0
    for image_hwc in tile.images:
        block.paste(Pillow.fromarray(image_hwc), (left, LINE))
        left += image_hwc.shape[1] + GAP
    return block


def _legend(names: Sequence[tuple[str, Colour]], width: int) -> Pillow.Image:
    columns = max(1, width // 160)
    lines = -(-len(names) // columns)
    key = Pillow.new("RGB", (width, max(1, lines * LINE)), PAPER)
    for number, (name, colour) in enumerate(names):
        left, top = number % columns * 160, number // columns * LINE
        ImageDraw.Draw(key).rectangle((left, top + 2, left + 20, top + LINE - 4), colour, INK)
        _write(key, (left + 26, top), name)
    return key


def _write(image: Pillow.Image, place: tuple[int, int], text: str) -> None:
    ImageDraw.Draw(image).text(place, text, fill=INK, font=ImageFont.load_default(FONT))
