"""Gather what a check has to know about each image and its mask. Runs in worker processes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconet.data.check.void_borders import VoidBorders, measure_void_borders
from reconet.data.dataset import Dataset, FileDataset
from reconet.data.images.read import ColourMaskError, has_two_alphas, read_with_orientation
from reconet.data.labels import ILLEGAL, IllegalLabelError, LabelReader
from reconet.data.sets.folder_masks import ColourReader, read_colours
from reconet.errors import DataError
from reconet.types import IGNORE, Image

MOST_VALUES = 64  # of one mask that are kept: a photograph has thousands of colours
Counts = Mapping[int, int]  # a number in a mask, a colour as 0xRRGGBB, or a label -> pixels


@dataclass(frozen=True, kw_only=True)
class ImageFacts:
    """What is known about one image file."""

    error: str = ""  # why it cannot be read
    missing: bool = False  # there is no such file
    size: tuple[int, int] = (0, 0)  # height and width, as the dataset gives them
    turn: int = 1  # EXIF orientation that was not applied
    digest: bytes = b""  # of its pixels


@dataclass(frozen=True, kw_only=True)
class MaskFacts:
    """What is known about one mask."""

    error: str = ""
    missing: bool = False
    size: tuple[int, int] = (0, 0)
    values: Counts = field(default_factory=dict)  # numbers in the file, or colours
    other_values: int = 0  # how many more there are
    are_colours: bool = False
    unread_colours: bool = False  # colours, where numbers are expected
    see_through: bool = False  # a colour is both opaque and transparent
    illegal: Counts = field(default_factory=dict)  # of `values`: those that mean nothing
    labels: Counts = field(default_factory=dict)  # what the dataset makes of it
    borders: Mapping[int, VoidBorders] = field(default_factory=dict)  # of values that may be void
    digest: bytes = b""


@dataclass(frozen=True, kw_only=True)
class SampleFacts:
    """What is known about one image and its mask."""

    split: str
    name: str
    image: ImageFacts
    mask: MaskFacts | None  # None if the split has no masks


def gather_facts(dataset: Dataset, index: int) -> SampleFacts:
    """Look at one sample. An error that concerns all, such as a missing extra, is raised."""
    if isinstance(dataset, FileDataset):
        _, image_path, mask_path = dataset.pairs[index]
        image = _image_facts(image_path, dataset.upright)
        mask = None if mask_path is None else _mask_facts(dataset, mask_path)
    else:
        image, mask = _sample_facts(dataset, index)
    return SampleFacts(split=dataset.split, name=dataset.name(index), image=image, mask=mask)


def _sample_facts(dataset: Dataset, index: int) -> tuple[ImageFacts, MaskFacts | None]:
    """Look at a sample of a dataset that is not made of files."""
    try:
        _, image_hwc, label_hw = dataset[index]
    except DataError as error:
        return ImageFacts(error=str(error)), None
    image = ImageFacts(size=_size(image_hwc), digest=_digest(image_hwc))
    return image, _from_labels(label_hw, len(dataset.info.classes))


def _image_facts(path: Path, upright: bool) -> ImageFacts:
    try:
        image_hwc, turn = read_with_orientation(path)
    except DataError as error:
        return ImageFacts(error=_reason(error, path), missing=not path.exists())
    height, width = _size(image_hwc)
    if upright:
        size = (width, height) if turn >= 5 else (height, width)
        return ImageFacts(size=size, digest=_digest(image_hwc))
    return ImageFacts(size=(height, width), turn=turn, digest=_digest(image_hwc))


def _mask_facts(dataset: FileDataset, path: Path) -> MaskFacts:
    read = dataset.read_label
    try:
        if isinstance(read, LabelReader):
            return _from_numbers(read.read(path), read.table_n)
        if isinstance(read, ColourReader):
            facts = _from_colours(read_colours(path), read)
            return replace(facts, see_through=has_two_alphas(path))
        return _from_labels(read(path), len(dataset.info.classes))
    except ColourMaskError as error:
        return _from_unread_colours(path, str(error))
    except IllegalLabelError as error:
        return MaskFacts(values=error.counts, illegal=error.counts)
    except DataError as error:
        return MaskFacts(error=_reason(error, path), missing=not path.exists())


def _from_labels(label_hw: NDArray[np.uint8], num_classes: int) -> MaskFacts:
    table_n = np.full(256, ILLEGAL, np.uint8)
    table_n[:num_classes] = np.arange(num_classes)
    table_n[IGNORE] = IGNORE
    return _from_numbers(label_hw, table_n)


def _from_numbers(number_hw: NDArray[Any], table_n: NDArray[np.uint8]) -> MaskFacts:
    counts = _count(number_hw)
    labels: dict[int, int] = {}
    illegal: dict[int, int] = {}
    for value, pixels in counts.items():
        known = value % 1 == 0 and 0 <= value < table_n.size
        label = int(table_n[int(value)]) if known else ILLEGAL
        if label == ILLEGAL:
            illegal[value] = pixels
        else:
            labels[label] = labels.get(label, 0) + pixels
    kept = _most(counts)
    return MaskFacts(
        size=_size(number_hw),
        values=kept,
        other_values=len(counts) - len(kept),
        illegal=illegal,
        labels={} if illegal else labels,
        borders=_borders(number_hw, counts, illegal),
        digest=_digest(number_hw),
    )


def _borders(number_hw: NDArray[Any], counts: Counts, illegal: Counts) -> dict[int, VoidBorders]:
    """Measure the values that may be void between classes: 0, void itself, and the highest."""
    if number_hw.dtype != np.uint8 or len(counts) < 2:
        return {}
    measures = {
        value: measure_void_borders(number_hw, value)
        for value in {0, IGNORE, *([max(illegal)] if illegal else [])}
    }
    return {value: one for value, one in measures.items() if one is not None}


def _from_colours(code_hw: NDArray[np.int32], read: ColourReader) -> MaskFacts:
    meaning = dict(zip(read.code_n.tolist(), read.label_n.tolist(), strict=True))
    counts = _count(code_hw)
    illegal = {code: pixels for code, pixels in counts.items() if code not in meaning}
    labels: dict[int, int] = {}
    for code, pixels in counts.items():
        if code in meaning:
            labels[meaning[code]] = labels.get(meaning[code], 0) + pixels
    kept = _most(counts)
    return MaskFacts(
        size=_size(code_hw),
        values=kept,
        other_values=len(counts) - len(kept),
        are_colours=True,
        illegal=_most(illegal),
        labels={} if illegal else labels,
        digest=_digest(code_hw),
    )


def _from_unread_colours(path: Path, error: str) -> MaskFacts:
    try:
        code_hw = read_colours(path)
    except DataError:
        return MaskFacts(error=error.replace(str(path), "the mask"))
    counts = _count(code_hw)
    kept = _most(counts)
    return MaskFacts(
        size=_size(code_hw),
        values=kept,
        other_values=len(counts) - len(kept),
        are_colours=True,
        unread_colours=True,
        see_through=has_two_alphas(path),
        digest=_digest(code_hw),
    )


def _count(value_hw: NDArray[Any]) -> dict[int, int]:
    if value_hw.dtype == np.uint8:
        pixels_n = np.bincount(value_hw.ravel(), minlength=256)
        return {int(value): int(pixels_n[value]) for value in np.flatnonzero(pixels_n)}
    values, pixels = np.unique(value_hw, return_counts=True)
    return dict(zip(values.tolist(), pixels.tolist(), strict=True))


def _most(counts: Counts) -> dict[int, int]:
    if len(counts) <= 256:  # as many as a mask of numbers can have
        return dict(counts)
    return dict(sorted(counts.items(), key=lambda item: -item[1])[:MOST_VALUES])


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
