"""Find the image to explain: a file, or one of the run's dataset with its labels."""

import re
from pathlib import Path
from typing import NamedTuple

from reconet.data import open_split
from reconet.data.dataset import Dataset, has_labels
from reconet.data.images.read import read_upright
from reconet.errors import RecipeError
from reconet.evaluation import check_classes
from reconet.recipes.schema import Recipe
from reconet.types import Image, Label


class SourceImage(NamedTuple):
    name: str
    image_hwc: Image
    label_hw: Label | None


def find_image(
    image: str, recipe: Recipe, classes: tuple[str, ...], root: Path | None
) -> SourceImage:
    """Read a file, or SPLIT:NUMBER or SPLIT:NAME of the dataset that the network was trained on."""
    path = Path(image).expanduser()
    split, colon, which = image.partition(":")
    if path.exists() or not colon:
        return SourceImage(path.stem or path.name, read_upright(path).image_hwc, None)
    dataset = open_split(recipe.data, split, root)
    check_classes(classes, dataset, "the network")
    sample = dataset[_index(dataset, which)]
    return SourceImage(
        sample.name, sample.image_hwc, sample.label_hw if has_labels(dataset) else None
    )


def _index(dataset: Dataset, which: str) -> int:
    what = f"{dataset.info.name} {dataset.split}"
    if which.isdecimal() and len(which) < 20 and int(which) < len(dataset):
        return int(which)
    for index in range(len(dataset)):
        if dataset.name(index) == which:
            return index
    if which.isdecimal():
        raise RecipeError(f"{what} has images 0 to {len(dataset) - 1}, got {which}.")
    raise RecipeError(f"{what} has no image {which!r}; its first is {dataset.name(0)!r}.")


def folder_name(name: str) -> str:
    """Turn the name of an image, which may have slashes, into the name of one folder."""
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "image"
