"""Draw what a training sees: images of a split beside random crops of them, with their labels."""

from pathlib import Path

import numpy as np

from reconet.data.dataset import Dataset, evenly_spaced
from reconet.data.images.draw import VOID_COLOUR, Tile, fit, overlay, write_sheet
from reconet.data.order import AUGMENT, random_stream
from reconet.data.transforms import Augmentation, augment
from reconet.errors import DataError
from reconet.types import IGNORE, Colour, Image, Label, Palette

IMAGES, VIEWS, SIDE = 6, 4, 150


def write_augmented_sheet(
    dataset: Dataset,
    augmentation: Augmentation,
    path: Path,
    *,
    images: int = IMAGES,
    views: int = VIEWS,
    seed: int = 0,
) -> None:
    """Write a PNG: on each line an image and some crops of it, then the same under their labels."""
    tiles: list[Tile] = []
    found: set[int] = set()
    for number, index in enumerate(evenly_spaced(len(dataset), images)):
        try:
            sample = dataset[index]
        except DataError:
            unread = Tile(f"{dataset.name(index)}: cannot be read", [])
            tiles += [unread, unread]
            continue
        crops = [
            augment(sample, augmentation, random_stream(AUGMENT, seed, number, view))
            for view in range(views)
        ]
        shown = [sample, *crops]
        plain = [fit(each.image_hwc, SIDE, SIDE) for each in shown]
        tinted = [
            fit(tint(each.image_hwc, each.label_hw, dataset.info.palette), SIDE, SIDE)
            for each in shown
        ]
        tiles += [Tile(sample.name, plain), Tile("and labels", tinted)]
        found.update(*(np.unique(each.label_hw).tolist() for each in shown))
    write_sheet(path, tiles, _legend(dataset, found))


def tint(image_hwc: Image, label_hw: Label, palette: Palette) -> Image:
    """Tint an image by its labels. Void is flat, so that it can be seen."""
    tinted_hwc = overlay(image_hwc, label_hw, palette, alpha=0.6)
    tinted_hwc[label_hw == IGNORE] = VOID_COLOUR
    return tinted_hwc


def _legend(dataset: Dataset, labels: set[int]) -> list[tuple[str, Colour]]:
    info = dataset.info
    void = [("(not labelled)", VOID_COLOUR)] if IGNORE in labels else []
    return [(info.classes[k], info.palette[k]) for k in sorted(labels - {IGNORE})] + void
