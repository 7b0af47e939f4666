"""Real images to try an export on, and to calibrate it by."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reconet.data import open_dataset, open_split
from reconet.data.dataset import Dataset, spread_indices
from reconet.data.images.read import read_image
from reconet.data.layout import files_in
from reconet.errors import AbsentError, DataError
from reconet.inference.protocol import Protocol
from reconet.inference.windows import labels
from reconet.recipes.schema import Recipe
from reconet.types import Image

Read = Callable[[], Image]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Images:
    """Some images, read when they are looked at, and in words where they are from."""

    what: str  # "images of voc12 val"
    readers: Sequence[Read]

    @property
    def source(self) -> str:
        return f"{len(self)} {self.what}"

    def __iter__(self) -> Iterator[Image]:
        return (read() for read in self.readers)

    def __len__(self) -> int:
        return len(self.readers)


def from_folder(folder: Path, most: int) -> Images:
    """Spread over the images of a folder."""
    files = _spread(files_in(folder), most)
    return Images(
        what=f"images of {folder}",
        readers=[lambda path=path: read_image(path) for path in files],  # type: ignore[misc]
    )


def from_dataset(dataset: Dataset, most: int) -> Images:
    indices = _spread(range(len(dataset)), most)
    return Images(
        what=f"images of {dataset.info.name} {dataset.split}",
        readers=[lambda i=i: dataset[i].image_hwc for i in indices],  # type: ignore[misc]
    )


def of_recipe(recipe: Recipe, split: str, root: Path | None, most: int) -> Images:
    """Of the network's own dataset; where that is not here, generated ones, and it is said so."""
    data = recipe.data
    try:
        return from_dataset(open_split(data, split, root), most)
    except AbsentError:
        if root is not None:  # the user says that it is there
            raise
    scenes = open_dataset("scenes", "val", None, {"size": list(data.crop), "val": most})
    found = from_dataset(scenes, most)
    return replace(found, what=f"generated images ({data.name} is not here)")


def readable(sources: Images, note: Callable[[str], None]) -> Images:
    """Those that can be read; of the others it is told why not. One bad photo in a folder is no
    reason to stop, in a dataset it is."""
    good: list[Read] = []
    for read in sources.readers:
        try:
            read()
            good.append(read)
        except DataError as error:
            note(f"left out: {error}")
    if not good:
        raise DataError(f"none of the {sources.source} can be read.")
    return replace(sources, readers=good)


def batch_of(sources: Images, count: int, size: tuple[int, int]) -> Tensor:
    """The first images at one size, image_bchw; if there are too few, they come again."""
    images = [read() for read in sources.readers[:count]]
    fitted = [_fit(images[number % len(images)], size) for number in range(count)]
    return torch.from_numpy(np.stack(fitted)).permute(0, 3, 1, 2).contiguous()


def windows_of(image_hwc: Image, protocol: Protocol) -> NDArray[np.uint8]:
    """All windows that a network would be shown of an image, image_bchw: it is told to nobody."""
    seen: list[Tensor] = []

    def look(image_bchw: Tensor) -> Tensor:
        seen.append(image_bchw)
        return torch.zeros(len(image_bchw), 1, 1, 1)

    labels(look, torch.from_numpy(image_hwc), protocol, 1)
    windows: NDArray[np.uint8] = torch.cat(seen).numpy()
    return windows


def _fit(image_hwc: Image, size: tuple[int, int]) -> Image:
    return np.asarray(
        cv2.resize(image_hwc, (size[1], size[0]), interpolation=cv2.INTER_AREA), np.uint8
    )


def _spread(things: Sequence[T], most: int) -> list[T]:
    return [things[place] for place in spread_indices(len(things), most)]
