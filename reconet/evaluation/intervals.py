"""Say how sure a score is: one confusion matrix for each image, and a bootstrap over images.

A resample draws as many images as there are, with replacement. The 95 % interval of a score is
where its middle 95 % lie over all resamples. Two networks are compared on the same resamples, so
that images that are hard for both cancel out.

Dimensions: n images, r resamples, k classes. counts_n3k = pixels that are true and predicted,
true, predicted, for each image and class.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile
from zlib import error

import numpy as np
from numpy.typing import NDArray

from reconet.errors import DataError
from reconet.system.files import write_atomic
from reconet.system.reading import TEXT_BYTES, read_file

RESAMPLES, SEED = 2000, 0
CONFIDENCE = 0.95
FEW = 30  # images; a bootstrap over fewer says little
CHUNK = 200  # resamples at a time, to bound memory
Counts = NDArray[np.int64]
Values = NDArray[np.float64]
Statistic = Callable[[Values], Values]  # counts_r3k -> a score for each resample, perhaps by class


@dataclass(frozen=True)
class Interval:
    """A score and its 95 % interval, as fractions."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    @property
    def points(self) -> str:
        """Write a difference in points, with its interval."""
        value, low, high = (f"{100 * one:+.2f}" for one in (self.value, self.low, self.high))
        return f"{value} ({low} to {high})"


@dataclass
class ImageCounts:
    """The confusion of every image of a split, and its counts of pixels at boundaries."""

    classes: int
    names: list[str] = field(default_factory=list)
    entries: list[Counts] = field(default_factory=list)  # rows: true, predicted, pixels
    boundaries: list[Counts] = field(default_factory=list)  # 3 rows of k

    def add(self, name: str, count_kk: Counts, boundary_3k: Counts) -> None:
        """Add an image. Only the pairs of classes that occur are kept."""
        true_m, found_m = np.nonzero(count_kk)
        self.names.append(name)
        self.entries.append(np.stack([true_m, found_m, count_kk[true_m, found_m]]))
        self.boundaries.append(boundary_3k)

    @classmethod
    def united(cls, parts: Sequence["ImageCounts"]) -> "ImageCounts":
        """Unite the images that were dealt out in turn to several processes."""
        rows = [zip(part.names, part.entries, part.boundaries, strict=True) for part in parts]
        dealt = [row for turn in zip_longest(*rows) for row in turn if row is not None]
        return cls(parts[0].classes, *(list(column) for column in zip(*dealt, strict=True)))

    def confusion(self) -> Counts:
        """Return count_kk of all images."""
        count_kk = np.zeros((self.classes, self.classes), np.int64)
        true_m, found_m, pixels_m = np.concatenate(self.entries, axis=1)
        np.add.at(count_kk, (true_m, found_m), pixels_m)
        return count_kk

    def regions(self) -> Counts:
        """Return counts_n3k of regions: what IoU is computed from."""
        counts_n3k = np.zeros((len(self.names), 3, self.classes), np.int64)
        for counts_3k, (true_m, found_m, pixels_m) in zip(counts_n3k, self.entries, strict=True):
            same_m = true_m == found_m
            np.add.at(counts_3k[0], true_m[same_m], pixels_m[same_m])
            np.add.at(counts_3k[1], true_m, pixels_m)
            np.add.at(counts_3k[2], found_m, pixels_m)
        return counts_n3k

    def edges(self) -> Counts:
        """Return counts_n3k of pixels at boundaries."""
        return np.stack(self.boundaries)

    def save(self, path: Path, about: str) -> None:
        """Write the counts to a file. `about` says what they are of."""
        lengths_n = [entries.shape[1] for entries in self.entries]
        arrays: dict[str, Any] = {
            "about": np.array(about),
            "classes": np.array(self.classes),
            "names": np.array(self.names),
            "lengths": np.array(lengths_n),
            "entries": np.concatenate(self.entries, axis=1),
            "boundaries": self.edges(),
        }
        write_atomic(path, lambda file: np.savez_compressed(file, **arrays))

    @classmethod
    def load(cls, path: Path, about: str) -> "ImageCounts | None":
        """Read the counts of `about` from a file. Return None if there are none."""
        try:
            buffer = BytesIO(read_file(path, within=path.parent))
            with ZipFile(buffer) as archive:  # it may come from a stranger, and inflate to anything
                if sum(entry.file_size for entry in archive.infolist()) > TEXT_BYTES:
                    return None
            with np.load(buffer, allow_pickle=False) as arrays:
                if str(arrays["about"]) != about:
                    return None
                classes, entries = int(arrays["classes"]), arrays["entries"]
                lengths_n, boundary_n3k = arrays["lengths"], arrays["boundaries"]
                names = [str(name) for name in arrays["names"]]
        except (OSError, ValueError, TypeError, KeyError, MemoryError, BadZipFile, error):
            return None  # not there, or damaged: it is counted again
        whole = (
            all(one.dtype == np.int64 for one in (entries, lengths_n, boundary_n3k))
            and boundary_n3k.shape == (len(names), 3, classes)
            and lengths_n.shape == (len(names),)
            and entries.shape == (3, lengths_n.sum())
            and min(entries.min(initial=0), lengths_n.min(initial=0)) >= 0
            and entries[:2].max(initial=0) < classes
        )
        parts = np.split(entries, np.cumsum(lengths_n)[:-1], axis=1) if whole else []
        return cls(classes, names, parts, list(boundary_n3k)) if whole else None


def rough(images: int) -> list[str]:
    """Warn of intervals over few images: return a sentence, or none."""
    return [f"With fewer than {FEW} images, the intervals are rough."] if images < FEW else []


def iou(counts_r3k: Values) -> Values:
    """Return the IoU of each class. NaN for a class that is neither true nor predicted."""
    both_rk, true_rk, found_rk = np.moveaxis(counts_r3k, -2, 0)
    with np.errstate(invalid="ignore"):
        iou_rk: Values = both_rk / (true_rk + found_rk - both_rk)
    return iou_rk


def mean_iou(counts_r3k: Values) -> Values:
    """Return the mean IoU over the classes that are true or predicted."""
    iou_rk = iou(counts_r3k)
    known_rk = ~np.isnan(iou_rk)
    mean_r: Values = np.where(known_rk, iou_rk, 0).sum(-1) / np.maximum(known_rk.sum(-1), 1)
    return mean_r


def interval(counts_n3k: Counts, score: Statistic = mean_iou) -> Interval:
    """Return a score of all images with its interval."""
    low, high = np.nanpercentile(resampled(counts_n3k, score), tails(len(counts_n3k)))
    return Interval(float(score(counts_n3k.sum(0).astype(float))), float(low), float(high))


def differences(
    before_n3k: Counts, after_n3k: Counts, score: Statistic = mean_iou
) -> list[Interval]:
    """Return `after` minus `before` on the same images: one interval, or one for each class."""
    if len(before_n3k) != len(after_n3k):
        raise DataError("networks are compared on the same images.")
    value = score(after_n3k.sum(0).astype(float)) - score(before_n3k.sum(0).astype(float))
    change = resampled(after_n3k, score) - resampled(before_n3k, score)
    with np.errstate(all="ignore"):
        low, high = np.nanpercentile(change, tails(len(before_n3k)), axis=0)
    rows = zip(*(np.atleast_1d(x).tolist() for x in (value, low, high)), strict=True)
    return [Interval(*row) for row in rows]


def tails(images: int) -> tuple[float, float]:
    """Return the percentiles of resamples that bound an interval: for few images, wider ones.

    Hesterberg, "What Teachers Should Know About the Bootstrap" (2015): resamples of n images spread
    less than samples of n images do, by the factor that Student's interval corrects.
    """
    from scipy.special import ndtr, stdtrit  # type: ignore[import-untyped]

    if images < 2:
        return 0.0, 100.0
    width = stdtrit(images - 1, 0.5 + CONFIDENCE / 2) * np.sqrt(images / (images - 1))
    below = 100 * float(ndtr(-width))
    return below, 100 - below


def resampled(counts_n3k: Counts, score: Statistic) -> Values:
    """Return a score of each resample. The same images are drawn for every network."""
    flat_nm = counts_n3k.reshape(len(counts_n3k), -1).astype(float)
    totals = (times_rn @ flat_nm for times_rn in draws(len(counts_n3k)))
    return np.concatenate([score(one.reshape(-1, *counts_n3k.shape[1:])) for one in totals])


def draws(images: int) -> Iterator[Values]:
    """Yield how often each image is drawn in each resample, some resamples at a time."""
    rng = np.random.default_rng(SEED)
    for _ in range(RESAMPLES // CHUNK):
        yield rng.multinomial(images, np.full(images, 1 / images), size=CHUNK).astype(float)
