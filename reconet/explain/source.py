"""The image to explain: a file, or one of the run's own dataset with its truth."""

import re
from pathlib import Path
from typing import NamedTuple

from reconet.data import open_split
from reconet.data.dataset import Dataset, has_labels
from reconet.data.images.read import read_upright
from reconet.errors import RecipeError
from reconet.evaluation.evaluate import check_classes
from reconet.recipes.schema import Recipe
from reconet.types import Image, Label


class Source(NamedTuple):
    name: str
    image_hwc: Image
    truth_hw: Label | None


def find(image: str, recipe: Recipe, classes: tuple[str, ...], root: Path | None) -> Source:
    """A path, or SPLIT:NUMBER or SPLIT:NAME of the dataset that the network was trained on."""
    path = Path(image).expanduser()
    split, colon, which = image.partition(":")
    if path.exists() or not colon:
        return Source(path.stem or path.name, read_upright(path).image_hwc, None)
    data = recipe.data
    dataset = open_split(data, split, root)
    check_classes(classes, dataset, "the network")
    sample = dataset[_index(dataset, which)]
    return Source(sample.name, sample.image_hwc, sample.label_hw if has_labels(dataset) else None)


def _index(dataset: Dataset, which: str) -> int:
    what = f"{dataset.info.name} {dataset.split}"
    if which.isdecimal() and int(which) < len(dataset):
        return int(which)
    for index in range(len(dataset)):
        if dataset.name(index) == which:
            return index
    if which.isdecimal():
        raise RecipeError(f"{what} has images 0 to {len(dataset) - 1}, got {which}.")
    raise RecipeError(f"{what} has no image {which!r}; its first is {dataset.name(0)!r}.")


def folder_name(name: str) -> str:
    """An image's name as one folder: datasets have names with slashes in them."""
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "image"
