"""Load real images to compare an export on, and to calibrate it by."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reconet.data import DATASETS, open_dataset, open_split
from reconet.data.dataset import Dataset, evenly_spaced, title_of
from reconet.data.images.read import read_image
from reconet.data.layout import files_in
from reconet.data.scenes import LONGEST_SIDE
from reconet.errors import AbsentError, DataError
from reconet.inference.protocol import Protocol
from reconet.inference.windows import predict_labels
from reconet.recipes.schema import Recipe
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.types import Image


@dataclass(frozen=True, kw_only=True)
class SampleImages:
    """Some images, read each time they are used, and where they come from."""

    origin: str  # "of voc12 val"
    readers: Sequence[Callable[[], Image]]

    @property
    def description(self) -> str:
        return f"{counted(len(self.readers), 'image')} {self.origin}"

    def __iter__(self) -> Iterator[Image]:
        return (read() for read in self.readers)


def images_in_folder(folder: Path, most: int) -> SampleImages:
    """Choose at most so many images of a folder, evenly spaced."""
    files = files_in(folder)
    chosen = [files[index] for index in evenly_spaced(len(files), most)]
    return SampleImages(
        origin=f"of {folder}", readers=[partial(read_image, path) for path in chosen]
    )


def images_of_dataset(dataset: Dataset, most: int) -> SampleImages:
    """Choose at most so many images of a dataset, evenly spaced."""

    def read(index: int) -> Image:
        return dataset[index].image_hwc

    return SampleImages(
        origin=f"of {title_of(dataset)}",
        readers=[partial(read, index) for index in evenly_spaced(len(dataset), most)],
    )


def load_samples(recipe: Recipe, split: str, root: Path | None, most: int) -> SampleImages:
    """Choose images of the dataset that the network was trained on.

    Falls back to generated scenes if the dataset is not on this machine, or not known here.
    `origin` records which was used. An explicit `root` never falls back.
    """
    data = recipe.data
    try:
        if data.name in DATASETS or root is not None:
            return images_of_dataset(open_split(data, split, root), most)
    except AbsentError:
        if root is not None:
            raise
    size = [min(side, LONGEST_SIDE) for side in data.crop]
    scenes = open_dataset("scenes", "val", None, {"size": size, "val": most})
    images = images_of_dataset(scenes, most)
    return replace(images, origin=f"of generated scenes ({data.name} is not here)")


def readable_images(images: SampleImages, progress: Progress = SILENT) -> SampleImages:
    """Leave out images that cannot be read, with a note for each.

    One bad photo in a folder of the user is no reason to stop. In a dataset it is.
    """
    readable = []
    for read in images.readers:
        try:
            read()
            readable.append(read)
        except DataError as error:
            progress.note(f"left out: {error}")
    if not readable:
        raise DataError(f"none of {images.description} can be read.")
    return replace(images, readers=readable)


def batch_of(images: SampleImages, count: int, size: tuple[int, int]) -> Tensor:
    """Resize the first `count` images to one size, image_bchw. Too few images are repeated."""
    first = [read() for read in images.readers[:count]]
    resized = [cv2.resize(one, size[::-1], interpolation=cv2.INTER_AREA) for one in first]
    batch = [np.asarray(resized[number % len(first)], np.uint8) for number in range(count)]
    return torch.from_numpy(np.stack(batch)).permute(0, 3, 1, 2).contiguous()


def windows_of(images: Iterable[Image], protocol: Protocol) -> list[NDArray[np.uint8]]:
    """Return one window of each image, image_bchw, as the protocol cuts it: first, second ..."""
    batches: list[Tensor] = []

    def record(image_bchw: Tensor) -> Tensor:
        batches.append(image_bchw)
        return torch.zeros(len(image_bchw), 1, 1, 1)

    chosen: list[NDArray[np.uint8]] = []
    for number, image_hwc in enumerate(images):
        batches.clear()
        predict_labels(record, torch.from_numpy(image_hwc), protocol, 1)
        windows: NDArray[np.uint8] = torch.cat(batches).numpy()
        index = number % len(windows)
        chosen.append(windows[index : index + 1].copy())
    return chosen
