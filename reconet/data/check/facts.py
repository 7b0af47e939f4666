"""Gather what a check has to know about each image and its mask. Runs in worker processes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconet.data.dataset import Dataset, FileDataset
from reconet.data.images.read import ColourMaskError, read_with_orientation
from reconet.data.labels import ILLEGAL, IllegalLabelError, LabelReader
from reconet.data.sets.folder_masks import ColourReader, read_colours
from reconet.errors import DataError
from reconet.types import IGNORE, Image

MOST_VALUES = 256  # of one mask that are all kept: a photograph has thousands of colours
MOST_KEPT = 64  # of a mask with more
Counts = Mapping[int, int]  # a number in a mask, a colour as 0xRRGGBB, or a label -> pixels


@dataclass(frozen=True, kw_only=True)
class ImageFacts:
    """What is known about one image file."""

    error: str = ""  # why it cannot be read
    missing: bool = False  # there is no such file
    size: tuple[int, int] | None = None  # height and width, as the dataset gives them
    turn: int = 1  # EXIF orientation that was not applied
    digest: bytes = b""  # of its pixels


@dataclass(frozen=True, kw_only=True)
class MaskFacts:
    """What is known about one mask. All is empty if there is none."""

    error: str = ""
    missing: bool = False
    size: tuple[int, int] | None = None
    values: Counts = field(default_factory=dict)  # numbers in the file, or colours
    incomplete: bool = False  # there are more values
    are_colours: bool = False
    unread: bool = False  # colours, where numbers are expected
    illegal: Counts = field(default_factory=dict)  # of `values`: those that mean nothing
    labels: Counts = field(default_factory=dict)  # what the dataset makes of it, if all is legal
    digest: bytes = b""


@dataclass(frozen=True, kw_only=True)
class SampleFacts:
    """What is known about one image and its mask."""

    split: str
    name: str
    image: ImageFacts
    mask: MaskFacts

    @property
    def sizes_differ(self) -> bool:
        """Return whether both were read, and do not fit each other."""
        return bool(self.image.size and self.mask.size) and self.image.size != self.mask.size

    @property
    def is_broken(self) -> bool:
        unread = self.mask.error or self.mask.illegal or self.mask.unread
        return bool(self.image.error or unread or self.sizes_differ)


def gather_facts(dataset: Dataset, index: int) -> SampleFacts:
    """Look at one sample. An error that concerns all, such as a missing extra, is raised."""
    mask = MaskFacts()
    if isinstance(dataset, FileDataset):
        _, image_path, mask_path = dataset.pairs[index]
        image = _image_facts(image_path, dataset.upright)
        if mask_path is not None:
            mask = _mask_facts(dataset, mask_path)
    else:
        try:
            _, image_hwc, label_hw = dataset[index]
            image = ImageFacts(size=_size(image_hwc), digest=_digest(image_hwc))
            mask = _from_values(label_hw, meanings(dataset))
        except DataError as error:
            image = ImageFacts(error=str(error))
    return SampleFacts(split=dataset.split, name=dataset.name(index), image=image, mask=mask)


def meanings(dataset: Dataset) -> dict[int, int]:
    """Return the label of each number or colour in masks."""
    read = dataset.read_label if isinstance(dataset, FileDataset) else None
    if isinstance(read, LabelReader):
        legal = np.flatnonzero(read.table_n != ILLEGAL).tolist()
        return {number: int(read.table_n[number]) for number in legal}
    if isinstance(read, ColourReader):
        return dict(zip(read.code_n.tolist(), read.label_n.tolist(), strict=True))
    return {label: label for label in (*range(len(dataset.info.classes)), IGNORE)}


def _image_facts(path: Path, upright: bool) -> ImageFacts:
    try:
        image_hwc, turn = read_with_orientation(path)
    except DataError as error:
        return ImageFacts(error=_reason(error, path), missing=not path.exists())
    height, width = _size(image_hwc)
    if upright:
        height, width = (width, height) if turn >= 5 else (height, width)
        turn = 1
    return ImageFacts(size=(height, width), turn=turn, digest=_digest(image_hwc))


def _mask_facts(dataset: FileDataset, path: Path) -> MaskFacts:
    read = dataset.read_label
    try:
        if isinstance(read, LabelReader):
            return _from_values(read.read(path), meanings(dataset))
        if isinstance(read, ColourReader):
            return _from_values(read_colours(path), meanings(dataset), are_colours=True)
        return _from_values(read(path), meanings(dataset))
    except ColourMaskError:
        return _unread_colours(path)
    except IllegalLabelError as error:
        return MaskFacts(values=error.counts, illegal=error.counts)
    except DataError as error:
        return MaskFacts(error=_reason(error, path), missing=not path.exists())


def _unread_colours(path: Path) -> MaskFacts:
    try:
        return _from_values(read_colours(path), {}, are_colours=True, unread=True)
    except DataError as error:
        return MaskFacts(error=_reason(error, path))


def _from_values(
    value_hw: NDArray[Any],
    meaning: Mapping[int, int],
    *,
    are_colours: bool = False,
    unread: bool = False,
) -> MaskFacts:
    counts = _count(value_hw)
    illegal = {} if unread else {v: n for v, n in counts.items() if v not in meaning}
    labels: dict[int, int] = {}
    if not illegal and not unread:
        for value, pixels in counts.items():
            labels[meaning[value]] = labels.get(meaning[value], 0) + pixels
    return MaskFacts(
        size=_size(value_hw),
        values=_most(counts),
        incomplete=len(counts) > MOST_VALUES,
        are_colours=are_colours,
        unread=unread,
        illegal=_most(illegal),
        labels=labels,
        digest=_digest(value_hw),
    )


def _count(value_hw: NDArray[Any]) -> dict[int, int]:
    if value_hw.dtype == np.uint8:
        pixels_n = np.bincount(value_hw.ravel(), minlength=256)
        return {int(value): int(pixels_n[value]) for value in np.flatnonzero(pixels_n)}
    values, pixels = np.unique(value_hw, return_counts=True)
    return dict(zip(values.tolist(), pixels.tolist(), strict=True))


def _most(counts: Counts) -> dict[int, int]:
    if len(counts) <= MOST_VALUES:
        return dict(counts)
    return dict(sorted(counts.items(), key=lambda item: -item[1])[:MOST_KEPT])


def _size(array: NDArray[Any]) -> tuple[int, int]:
    return int(array.shape[0]), int(array.shape[1])


def _digest(array: Image | NDArray[Any]) -> bytes:
    """Hash pixels and shape. Copies are found, and images that were saved again without loss."""
    return blake2b(
        np.ascontiguousarray(array).data, digest_size=16, person=repr(array.shape).encode()[:16]
    ).digest()


def _reason(error: DataError, path: Path) -> str:
    """Return what is wrong without the path, so that equal mistakes can be counted."""
    return str(error).replace(f"{path}: ", "").replace(f"{path} ", "it ").replace(str(path), "it")
