"""Rank images: what to label next, and which masks to look at again."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from reconet.data.dataset import Dataset, Sample, evenly_spaced
from reconet.errors import DataError
from reconet.models.segmenter import Segmenter
from reconet.suggest.images import Outcome, files_of, read_all
from reconet.suggest.novelty import MOST, distances, mean_features
from reconet.suggest.order import order_by_ranks
from reconet.suggest.pixels import Judge, Judged
from reconet.system.distributed import Processes
from reconet.system.progress import Progress
from reconet.types import IGNORE, Image, Label

BORDER = 100  # parts of the long side: how wide the border of an area is that does not count


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """An image, and why somebody should look at it."""

    index: int  # in its dataset
    name: str
    figures: dict[str, float]
    mask_says: str = ""  # where they differ most: the class of the mask
    network_says: str = ""  # and that of the network
    files: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        says = {"mask_says": self.mask_says, "network_says": self.network_says}
        return {"name": self.name, **self.figures, **{k: v for k, v in says.items() if v}} | (
            {"files": self.files} if self.files else {}
        )


@dataclass(frozen=True, kw_only=True)
class Ranker:
    """Ranks the images of a dataset, in one process or several."""

    judge: Judge
    processes: Processes
    workers: int
    outcome: Outcome
    progress: Progress

    def label_again(self, dataset: Dataset) -> list[Suggestion]:
        """Rank labelled images by how confidently the network contradicts their masks."""
        classes = self.judge.network.info.classes
        own = []
        self.progress.start(self.processes.share_of(len(dataset)), "compare with masks")
        for index, sample in self._read(dataset):
            if not (sample.label_hw != IGNORE).any():
                self.outcome.skip(sample.name, "no pixel has a label")
                continue
            judged = self.judge(sample.image_hwc, sample.label_hw)
            given, found = main_contradiction(judged, sample.label_hw, len(classes))
            own.append(
                Suggestion(
                    index=index,
                    name=sample.name,
                    figures={"disagreement": disagreement(judged, sample.label_hw)},
                    mask_says=classes[given] if given != found else "",
                    network_says=classes[found] if given != found else "",
                    files=files_of(dataset, index),
                )
            )
        return self._ordered(own)

    def label_next(self, dataset: Dataset, known: Dataset | None) -> list[Suggestion]:
        """Rank images without labels: unsure ones, unlike those of the dataset that is known."""
        model = self.judge.network.model if known is not None else None
        train_md = None if known is None or model is None else self._features(known, model)
        own, features = [], []
        self.progress.start(self.processes.share_of(len(dataset)), "look at images")
        for index, sample in self._read(dataset):
            value_hw = self.judge(sample.image_hwc).value_hw
            figures = {"unsure": float(value_hw.mean(dtype=np.float64))}
            if model is not None:
                features.append(self._mean_features(model, sample.image_hwc))
            files = files_of(dataset, index)
            own.append(Suggestion(index=index, name=sample.name, figures=figures, files=files))
        if train_md is None or not features:
            return self._ordered(own)
        for one, distance in zip(own, distances(torch.stack(features), train_md), strict=True):
            one.figures["distance"] = float(distance)
        return self._ordered(own)

    def _read(self, dataset: Dataset) -> Iterator[tuple[int, Sample]]:
        return read_all(dataset, self.processes, self.workers, self.outcome, self.progress)

    def _mean_features(self, model: Segmenter, image_hwc: Image) -> torch.Tensor:
        return mean_features(model, image_hwc, self.judge.protocol.base_size)

    def _features(self, known: Dataset, model: Segmenter) -> torch.Tensor | None:
        """Return the features of training images, the same on all processes."""
        chosen = _Some(known, evenly_spaced(len(known), MOST))
        self.progress.start(self.processes.share_of(len(chosen)), "look at training images")
        own = [self._mean_features(model, sample.image_hwc) for _, sample in self._read(chosen)]
        every = [feature_d for part in self.processes.gather(own) for feature_d in part]
        return torch.stack(every) if every else None

    def _ordered(self, own: list[Suggestion]) -> list[Suggestion]:
        """Join the images of all processes, and order them."""
        every = [one for part in self.processes.gather(own) for one in part]
        if not every:
            raise DataError("there is no image that can be ranked.")
        every.sort(key=lambda one: one.index)
        columns = [[one.figures[name] for one in every] for name in every[0].figures]
        return [every[place] for place in order_by_ranks(columns)]


class _Some:
    """Some images of a dataset."""

    def __init__(self, dataset: Dataset, indices: list[int]) -> None:
        self.dataset, self.indices = dataset, indices
        self.info, self.split = dataset.info, dataset.split

    def __len__(self) -> int:
        return len(self.indices)

    def name(self, index: int) -> str:
        return self.dataset.name(self.indices[index])

    def __getitem__(self, index: int) -> Sample:
        return self.dataset[self.indices[index]]


def disagreement(judged: Judged, label_hw: Label) -> float:
    """Return the mean over labelled pixels of how much the network contradicts them.

    A border of each area does not count: networks and people draw it a little here or there.
    """
    return float(within_borders(judged.value_hw).sum(dtype=np.float64) / (label_hw != IGNORE).sum())


def within_borders(value_hw: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the smallest value around each pixel, up to the width of a border."""
    reach = max(1, round(max(value_hw.shape) / BORDER))
    kernel = np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)
    return np.asarray(cv2.erode(value_hw, kernel), np.float32)


def main_contradiction(judged: Judged, label_hw: Label, classes: int) -> tuple[int, int]:
    """Return the class of the mask and that of the network where they differ most."""
    valid_hw = label_hw != IGNORE
    pair_n = label_hw[valid_hw].astype(np.int64) * classes + judged.predicted_hw[valid_hw]
    sum_n = np.bincount(pair_n, judged.value_hw[valid_hw], minlength=classes**2)
    given, found = divmod(int(sum_n.argmax()), classes)
    return given, found
