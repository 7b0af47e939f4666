"""What a dataset is: its declaration, its options, and the samples of a split that is open.

Every dataset gives RGB uint8 images and uint8 labels 0..k-1. Pixels without a label are 255.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from reconet.data.images.read import read_image, read_upright
from reconet.errors import DataError, IncompleteError, RecipeError, unknown
from reconet.recipes.schema import Settings, validation_message
from reconet.recipes.values import small_options
from reconet.system.readable import split_name
from reconet.system.reading import read_file
from reconet.types import IGNORE, MAX_CLASSES, Image, Label, Palette

if TYPE_CHECKING:
    from reconet.data.prepare import PreparePlan

S = TypeVar("S", bound=Settings)
Options = Mapping[str, object]  # as in data.options, not checked yet


class Sample(NamedTuple):
    """An image in memory with its labels."""

    name: str  # unique in its split; messages, logs and submissions use it
    image_hwc: Image
    label_hw: Label


class Pair(NamedTuple):
    """An image file and its mask. Test sets with secret labels have no masks."""

    name: str
    image: Path
    mask: Path | None


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """Facts about a dataset that hold before any of its files is opened."""

    name: str
    title: str
    classes: tuple[str, ...]
    palette: Palette
    splits: Mapping[str, int | None]  # the official number of images, or None if there is none
    disjoint: tuple[tuple[str, str], ...] = ()  # pairs of splits that must not share an image
    layout: tuple[str, ...] = ()  # files expected under the root, one line each
    licence: str = ""
    source: str = ""  # where to get it
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.classes) > MAX_CLASSES:
            raise DataError(
                f"{self.name} has {len(self.classes)} classes, and labels of 8 bits tell at most "
                f"{MAX_CLASSES}. Join rare classes, or leave them out."
            )


class Dataset(Protocol):
    """An indexed set of samples, cheap to open and to send to a worker process."""

    @property
    def info(self) -> DatasetInfo: ...
    @property
    def split(self) -> str: ...
    def __len__(self) -> int: ...
    def name(self, index: int) -> str: ...
    def __getitem__(self, index: int) -> Sample: ...


class UsualScores(Protocol):
    """The scores from which a dataset derives its extra ones. All are fractions in [0, 1]."""

    @property
    def mean_iou(self) -> float: ...
    @property
    def pixel_accuracy(self) -> float: ...
    def mean_iou_without(self, *classes: str) -> float:
        """Average over the other classes. Pixels of `classes` are not scored.

        Where another class is true, a prediction of `classes` is still an error.
        """
        ...


class ExtraScore(NamedTuple):
    """A score that only some benchmarks use, and its label in tables."""

    label: str
    compute: Callable[[UsualScores], float]


@dataclass(frozen=True, kw_only=True)
class SubmissionFormat:
    """The files that a test server takes."""

    path: str  # of one image, with {split} and {name}
    encode: Callable[[Label], bytes]  # the content of that file
    archive: str = ""  # name of the zip file, with {split}, if the server wants one


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """A dataset: facts about it, how to open it, and what its benchmark asks for."""

    info: DatasetInfo
    open: Callable[..., Dataset]  # (root, split), and the options as a third if there are any
    options: type[Settings] | None = None  # checks data.options
    complete: Callable[[Path, Options], Options] | None = None  # adds options that the root tells
    prepare: Callable[[Path, Path | None], "PreparePlan"] | None = None  # (root, source)
    converts: str = ""  # what `prepare` makes of which files
    needs_root: bool = True
    own_lists: bool = False  # a list of images in its files is a split too, whatever its name
    folder: str = ""  # under $RECONET_DATA; by default the name
    terms: str = ""  # of the training data, in a model card; by default the licence
    absent_classes: tuple[str, ...] = ()  # in no test image: not part of the mean IoU
    extra_scores: Mapping[str, ExtraScore] = field(default_factory=dict)
    secret_splits: tuple[str, ...] = ()  # whose labels only the test server has
    submission: SubmissionFormat | None = None


@dataclass(frozen=True, kw_only=True)
class FileDataset:
    """Pairs of files, and the function that reads the masks of this dataset."""

    info: DatasetInfo
    split: str
    pairs: Sequence[Pair]
    read_label: Callable[[Path], Label]
    upright: bool = False  # turn images as their EXIF orientation says
    without_mask: tuple[str, ...] = ()  # images of the split that are left out
    without_image: tuple[str, ...] = ()  # masks that nothing uses

    def __len__(self) -> int:
        return len(self.pairs)

    def name(self, index: int) -> str:
        return self.pairs[index].name

    def __getitem__(self, index: int) -> Sample:
        """Read a sample. Without a mask all its pixels are void."""
        name, image_path, mask_path = self.pairs[index]
        image_hwc = read_upright(image_path).image_hwc if self.upright else read_image(image_path)
        if mask_path is None:
            return Sample(name, image_hwc, np.full(image_hwc.shape[:2], IGNORE, np.uint8))
        label_hw = self.read_label(mask_path)
        if label_hw.shape != image_hwc.shape[:2]:
            raise DataError(
                f"{mask_path} is {_size(label_hw)} but its image {image_path} is "
                f"{_size(image_hwc)}."
            )
        return Sample(name, image_hwc, label_hw)


def read_label(dataset: Dataset, index: int) -> Label:
    """Read the labels of a sample, without its image if it is a file."""
    if isinstance(dataset, FileDataset):
        path = dataset.pairs[index].mask
        if path is not None:
            return dataset.read_label(path)
    return dataset[index].label_hw


def identify_image(dataset: Dataset, index: int) -> str:
    """Tell an image from others by the content of its file, or by its dataset."""
    if not isinstance(dataset, FileDataset):
        return f"{dataset.name(index)} of {dataset!r}"
    return _identify(dataset.pairs[index].image) + (" upright" if dataset.upright else "")


def identify_label(dataset: Dataset, index: int) -> str:
    """Tell the labels of a sample from others by the content of their file, or by its dataset."""
    if not isinstance(dataset, FileDataset):
        return f"{dataset.name(index)} of {dataset!r}"
    path = dataset.pairs[index].mask
    return "no labels" if path is None else _identify(path)


def _identify(path: Path) -> str:
    try:
        status = path.stat()
        return _digest_of(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}.") from error


@cache  # features are looked for several times before they are read
def _digest_of(path: Path, size: int, changed: int) -> str:
    return blake2b(read_file(path), digest_size=16).hexdigest()


def fingerprint(dataset: Dataset, index: int) -> str:
    """Describe a sample by its name and the sizes of its files, as they are in every copy."""
    if not isinstance(dataset, FileDataset):
        return f"{dataset.name(index)} of {dataset!r}"
    name, *files = dataset.pairs[index]
    return " ".join([name, *(str(path.stat().st_size) for path in files if path is not None)])


def has_labels(dataset: Dataset) -> bool:
    """Return whether there are labels to score against. Opens no files."""
    return not isinstance(dataset, FileDataset) or any(p.mask is not None for p in dataset.pairs)


def title_of(dataset: Dataset) -> str:
    """Name a split: "voc12 val", and that of a folder by its own name, as in "mine, val"."""
    return split_name(dataset.info.name, dataset.split, dataset.info.title)


def left_out_note(dataset: Dataset) -> str | None:
    """Say how many images of a split are not used because they have no mask."""
    names = dataset.without_mask if isinstance(dataset, FileDataset) else ()
    if not names:
        return None
    return (
        f"{dataset.split} leaves out {len(names)} of {len(names) + len(dataset)} images, which "
        f"have no mask, such as {names[0]}."
    )


def sample_evenly(dataset: Dataset, count: int) -> Iterator[Sample]:
    """Yield `count` samples at even distances. Samples that cannot be read are left out."""
    for index in evenly_spaced(len(dataset), count):
        with suppress(DataError):
            yield dataset[index]


def evenly_spaced(length: int, count: int) -> list[int]:
    """Return `count` evenly spaced indices below `length`, or all of them if there are fewer."""
    indices: list[int] = np.linspace(0, length - 1, min(count, length)).astype(int).tolist()
    return indices


def share_images(one: Dataset, other: Dataset) -> bool:
    """Return whether some image is in both. Different splits of generated images share none."""
    if isinstance(one, FileDataset) and isinstance(other, FileDataset):
        return not {p.image for p in one.pairs}.isdisjoint(p.image for p in other.pairs)
    return one.split == other.split


def _size(array: NDArray[np.uint8]) -> str:
    return f"{array.shape[1]} x {array.shape[0]} (width x height)"


def read_options(kind: type[S], options: Mapping[str, object]) -> S:
    """Return the options as settings, or raise an error that names the wrong one."""
    try:
        small_options(dict(options))
    except ValueError as error:
        raise RecipeError(f"data.options: {error}.") from error
    check_known(options, kind.model_fields)
    try:
        return kind.model_validate(dict(options))
    except ValidationError as error:
        missing = all(problem["type"] == "missing" for problem in error.errors(include_url=False))
        kind_of_error = IncompleteError if missing else RecipeError
        message = validation_message(error, "data.options")
        raise kind_of_error(message + example(kind, error, "data.options.{}={}")) from error


def example(kind: type[Settings], error: ValidationError, form: str) -> str:
    """Return a sentence that shows a value of what is missing, where the settings have one."""
    missing = [
        str(one["loc"][0]) for one in error.errors(include_url=False) if one["type"] == "missing"
    ]
    shown = [(name, kind.model_fields[name].examples or [None]) for name in missing]
    texts = [form.format(name, some[0]) for name, some in shown if some[0]]
    return f" For example: {', '.join(texts)}" if texts else ""


def check_known(options: Mapping[str, object], known: Iterable[str] = ()) -> None:
    """Raise if there is an option that a dataset does not have."""
    choices = set(known)
    for name in map(str, options):  # Python allows other keys than texts
        if name not in choices:
            raise unknown("option data.options", name, choices)
