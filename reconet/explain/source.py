"""The picture to explain: a file, or one of the run's own dataset with its truth.

It is shown to the network once and whole, its long side scaled to data.base_size: an attention
belongs to one forward pass, and at this size objects are as large as they were in training. (An
evaluation by windows sees the same picture in pieces, each with an attention of its own.)
"""

import re
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from reconet.data import open_split
from reconet.data.dataset import Dataset, Image, Label, has_labels
from reconet.data.images import read_upright
from reconet.errors import DataError, RecipeError
from reconet.protocol import Protocol, at_scale
from reconet.recipe import Recipe
from reconet.resampling import zoomed


class Source(NamedTuple):
    name: str
    image_hwc: Image
    truth_hw: Label | None


def find(picture: str, recipe: Recipe, classes: tuple[str, ...], root: Path | None) -> Source:
    """A path, or SPLIT:NUMBER or SPLIT:NAME of the dataset that the network was trained on."""
    path = Path(picture).expanduser()
    split, colon, which = picture.partition(":")
    if path.exists() or not colon:
        return Source(path.stem or path.name, read_upright(path).image_hwc, None)
    data = recipe.data
    dataset = open_split(data, split, root)
    if dataset.info.classes != classes:
        raise DataError(f"the network knows other classes than {data.name} has; name a file.")
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
        raise RecipeError(f"{what} has pictures 0 to {len(dataset) - 1}, got {which}.")
    raise RecipeError(f"{what} has no picture {which!r}; its first is {dataset.name(0)!r}.")


def shown(image_hwc: Image, recipe: Recipe) -> Tensor:
    """The picture as the network sees it: image_bchw, whole, its long side at base_size."""
    protocol = Protocol(mode="whole", base_size=recipe.data.base_size, budget_bytes=2**62)
    rows, columns = at_scale((image_hwc.shape[0], image_hwc.shape[1]), 1.0, protocol)
    image_chw = torch.from_numpy(image_hwc).permute(2, 0, 1)
    size = (rows.scaled, columns.scaled)
    return zoomed(image_chw, size, (0, size[0]), (0, size[1]))[None]


def folder_name(name: str) -> str:
    """A picture's name as one folder: datasets have names with slashes in them."""
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "picture"
