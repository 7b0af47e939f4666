"""Gather what a check has to know about each image and its mask. Runs in worker processes."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reconet.data.dataset import Dataset, FileDataset
from reconet.data.images.read import ColourMaskError, read_with_orientation
from reconet.data.labels import ILLEGAL, IllegalLabelError, LabelReader, count_values
from reconet.data.sets.folder_masks import ColourReader, read_colours
from reconet.data.widths import width_counts
from reconet.errors import DataError
from reconet.types import IGNORE

MOST_VALUES = 256  # of all masks that are told: a photograph has thousands of colours
MOST_SIDE = 1024  # pixels, of the part of a mask in which widths are measured
Counts = Mapping[int, int]  # a number in a mask, a colour as 0xRRGGBB, or a label -> pixels


@dataclass(frozen=True, kw_only=True)
class FileFacts:
    """What is known about an image or a mask. All is empty if there is none."""

    error: str = ""  # why it cannot be read
    missing: bool = False  # there is no such file
    size: tuple[int, int] | None = None  # height and width, as the dataset gives them
    digest: bytes = b""  # of its pixels
    turn: int = 1  # of an image: EXIF orientation that was not applied
    values: Counts = field(default_factory=dict)  # of a mask: its numbers, or colours
    are_colours: bool = False
    unread: bool = False  # colours, where numbers are expected
    illegal: Counts = field(default_factory=dict)  # those of `values` that mean nothing
    labels: Counts = field(default_factory=dict)  # what the dataset makes of it, if all is legal
    widths: Mapping[int, Counts] = field(default_factory=dict)  # of its regions, by label


class SampleFacts(NamedTuple):
    """What is known about one image and its mask."""

    split: str
    name: str
    image: FileFacts
    mask: FileFacts

    @property
    def sizes_differ(self) -> bool:
        """Return whether both were read, and do not fit each other."""
        return bool(self.image.size and self.mask.size) and self.image.size != self.mask.size

    @property
    def is_swapped(self) -> bool:
        return self.mask.size is not None and self.image.size == self.mask.size[::-1]

    @property
    def is_broken(self) -> bool:
        unread = self.mask.error or self.mask.illegal or self.mask.unread
        return bool(self.image.error or unread or self.sizes_differ)


class Values(NamedTuple):
    """The numbers or colours in a set of masks."""

    pixels: Counter[int]
    masks: Counter[int]  # in how many masks each of them is
    total: int = 0  # masks

    def share(self, value: int) -> float:
        """Return the part of all pixels that has a value."""
        return self.pixels[value] / max(1, self.pixels.total())

    @classmethod
    def of(cls, masks: Sequence[FileFacts]) -> "Values":
        """Add up the values of masks that could be read."""
        pixels, holders = Counter[int](), Counter[int]()
        for mask in masks:
            pixels.update(mask.values)
            holders.update(mask.values.keys())
        return cls(pixels, holders, len(masks))


def gather_facts(dataset: Dataset, index: int) -> SampleFacts:
    """Look at one sample. An error that concerns all, such as a missing extra, is raised."""
    mask = FileFacts()
    if isinstance(dataset, FileDataset):
        _, image_path, mask_path = dataset.pairs[index]
        image = _look(image_path, lambda: _image_facts(image_path, dataset.upright))
        if mask_path is not None:
            mask = _look(mask_path, lambda: _mask_facts(dataset, mask_path))
    else:
        try:
            _, image_hwc, label_hw = dataset[index]
            image = FileFacts(size=image_hwc.shape[:2], digest=_digest(image_hwc))
            mask = _from_values(label_hw, meanings(dataset))
        except DataError as error:
            image = FileFacts(error=str(error))
    return SampleFacts(dataset.split, dataset.name(index), image, mask)


def meanings(dataset: Dataset) -> dict[int, int]:
    """Return the label of each number or colour in masks."""
    read = dataset.read_label if isinstance(dataset, FileDataset) else None
    if isinstance(read, LabelReader):
        legal = np.flatnonzero(read.table_n != ILLEGAL).tolist()
        return {number: int(read.table_n[number]) for number in legal}
    if isinstance(read, ColourReader):
        return dict(zip(read.code_n.tolist(), read.label_n.tolist(), strict=True))
    return {label: label for label in (*range(len(dataset.info.classes)), IGNORE)}


def _look(path: Path, look: Callable[[], FileFacts]) -> FileFacts:
    """Return what is known about a file. Equal mistakes get equal texts: without the path."""
    try:
        return look()
    except IllegalLabelError as error:
        return FileFacts(values=error.counts, illegal=error.counts)
    except DataError as error:
        text = str(error).replace(f"{path}: ", "").replace(f"{path} ", "it ")
        return FileFacts(error=text.replace(str(path), "it"), missing=not path.exists())


def _image_facts(path: Path, upright: bool) -> FileFacts:
    image_hwc, turn = read_with_orientation(path)
    height, width = image_hwc.shape[:2]
    if upright and turn >= 5:
        height, width = width, height
    turn = 1 if upright else turn
    return FileFacts(size=(height, width), turn=turn, digest=_digest(image_hwc))


def _mask_facts(dataset: FileDataset, path: Path) -> FileFacts:
    read = dataset.read_label
    if isinstance(read, ColourReader):
        return _from_values(read_colours(path), meanings(dataset), are_colours=True)
    try:
        value_hw = read.read(path) if isinstance(read, LabelReader) else read(path)
    except ColourMaskError:
        return _from_values(read_colours(path), None, are_colours=True)
    return _from_values(value_hw, meanings(dataset))


def _from_values(
    value_hw: NDArray[Any], meaning: Mapping[int, int] | None, are_colours: bool = False
) -> FileFacts:
    counts = count_values(value_hw, MOST_VALUES + 1)
    illegal = {} if meaning is None else {v: n for v, n in counts.items() if v not in meaning}
    labels = Counter[int]()
    if meaning is not None and not illegal:
        for value, pixels in counts.items():
            labels[meaning[value]] += pixels
    widths = {}
    for label in labels.keys() - {IGNORE}:
        values = [value for value in counts if meaning and meaning[value] == label]
        widths[label] = width_counts(np.isin(_middle(value_hw), values))
    return FileFacts(
        size=(value_hw.shape[0], value_hw.shape[1]),
        digest=_digest(value_hw),
        values=counts,
        are_colours=are_colours,
        unread=meaning is None,
        illegal=illegal,
        labels=labels,
        widths=widths,
    )


def _middle(value_hw: NDArray[Any]) -> NDArray[Any]:
    """Return the middle of a large mask, of which there is enough to measure widths on."""
    top, left = (max(0, (side - MOST_SIDE) // 2) for side in value_hw.shape[:2])
    return value_hw[top : top + MOST_SIDE, left : left + MOST_SIDE]


def _digest(array: NDArray[Any]) -> bytes:
    """Hash pixels and shape. Copies are found, and images that were saved again without loss."""
    shape = repr(array.shape).encode()[:16]
    return blake2b(np.ascontiguousarray(array).data, digest_size=16, person=shape).digest()
