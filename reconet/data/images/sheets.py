"""Show images of a dataset on one page with a legend: beside their labels, or as training crops."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from reconet.data.classes import photograph_palette
from reconet.data.dataset import Dataset, Sample, evenly_spaced
from reconet.data.images.draw import VOID_COLOUR, fit, overlay
from reconet.data.order import AUGMENT, random_stream
from reconet.data.transforms import Augmentation, augment
from reconet.errors import DataError
from reconet.system.files import write_atomic
from reconet.system.reading import TEXT_BYTES, open_file
from reconet.types import IGNORE, Colour, Image

PAPER, INK = (255, 255, 255), (30, 30, 30)
SOFTWARE = "reconet sheet"  # in every sheet
LINE, GAP, LEGEND = 18, 8, 160  # pixels: height of a line of text, space between, width of a name
FONT = 12
CROPS, SIDE = 4, 150


class Tile(NamedTuple):
    """A part of a sheet: images side by side under a caption."""

    caption: str
    images: Sequence[Image]


def contact_sheet(dataset: Dataset, path: Path, count: int = 8) -> None:
    """Write a PNG of a few images, each beside a copy tinted by its labels, with a legend."""
    tiles, read = [], []
    for sample in _read(dataset, count):
        if isinstance(sample, Tile):
            tiles.append(sample)
            continue
        name, image_hwc, label_hw = sample
        painted_hwc = overlay(image_hwc, label_hw, dataset.info.palette, alpha=0.6)
        tiles.append(Tile(name, [fit(image_hwc, 280, 210), fit(painted_hwc, 280, 210)]))
        read.append(sample)
    write_sheet(path, tiles, _names(dataset, read, void=PAPER))


def write_augmented_sheet(
    dataset: Dataset, augmentation: Augmentation, path: Path, *, images: int = 6
) -> None:
    """Write a PNG: on each line an image and some crops of it, then the same under their labels.

    Void is flat, so that it can be seen.
    """
    tiles, read = [], []
    for number, sample in enumerate(_read(dataset, images)):
        if isinstance(sample, Tile):
            tiles += [sample, sample]
            continue
        streams = (random_stream(AUGMENT, 0, number, crop) for crop in range(CROPS))
        shown = [sample, *(augment(sample, augmentation, stream) for stream in streams)]
        tinted = []
        for _, image_hwc, label_hw in shown:
            tinted_hwc = overlay(image_hwc, label_hw, dataset.info.palette, alpha=0.6)
            tinted_hwc[label_hw == IGNORE] = VOID_COLOUR
            tinted.append(fit(tinted_hwc, SIDE, SIDE))
        tiles.append(Tile(sample.name, [fit(each.image_hwc, SIDE, SIDE) for each in shown]))
        tiles.append(Tile("and labels", tinted))
        read += shown
    write_sheet(path, tiles, _names(dataset, read, void=VOID_COLOUR))


def _read(dataset: Dataset, count: int) -> Iterator[Sample | Tile]:
    """Read some samples. One that cannot be read is a tile that says so."""
    for index in evenly_spaced(len(dataset), count):
        try:
            yield dataset[index]
        except DataError:
            yield Tile(f"{dataset.name(index)}: cannot be read", [])


def _names(dataset: Dataset, samples: Iterable[Sample], void: Colour) -> list[tuple[str, Colour]]:
    """Return the classes that are in some samples, with their colours."""
    info, colours = dataset.info, photograph_palette(tuple(dataset.info.palette))
    labels = sorted({label for sample in samples for label in np.unique(sample.label_hw).tolist()})
    return [
        ("(not labelled)", void) if label == IGNORE else (info.classes[label], colours[label])
        for label in labels
    ]


def write_sheet(path: Path, tiles: Sequence[Tile], names: Sequence[tuple[str, Colour]]) -> None:
    """Write a sheet of tiles as a PNG."""
    page, marks = Pillow.fromarray(sheet(tiles, names)), PngInfo()
    marks.add_text("Software", SOFTWARE)
    write_atomic(path, lambda file: page.save(file, format="PNG", pnginfo=marks))


def is_sheet(path: Path) -> bool:
    """Tell whether a file is a sheet of this package, which a new one may replace."""
    with open_file(path, limit=TEXT_BYTES) as file:
        return SOFTWARE.encode() in file.read(512)


def sheet(tiles: Sequence[Tile], names: Sequence[tuple[str, Colour]], columns: int = 2) -> Image:
    """Arrange tiles in columns, with a legend of names and their colours below."""
    blocks = [_block(tile) for tile in tiles]
    width = max((block.width for block in blocks), default=0) + GAP
    height = max((block.height for block in blocks), default=0) + GAP
    columns = max(1, min(columns, len(blocks)))
    total = max(columns * width, 480) + GAP
    across = max(1, (total - 2 * GAP) // LEGEND)
    top = GAP + -(-len(blocks) // columns) * height
    below = max(1, -(-len(names) // across) * LINE)
    page = Pillow.new("RGB", (total, top + below + GAP), PAPER)
    for number, block in enumerate(blocks):
        page.paste(block, (GAP + number % columns * width, GAP + number // columns * height))
    for number, (name, colour) in enumerate(names):
        left, line = GAP + number % across * LEGEND, top + number // across * LINE
        ImageDraw.Draw(page).rectangle((left, line + 2, left + 20, line + LINE - 4), colour, INK)
        _write(page, (left + 26, line), name)
    return np.array(page)


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


def _write(image: Pillow.Image, place: tuple[int, int], text: str) -> None:
    ImageDraw.Draw(image).text(place, text, fill=INK, font=ImageFont.load_default(FONT))
