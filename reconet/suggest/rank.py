"""Rank images: what to label next, and which masks to look at again.

A network judges every pixel, 0 to 1:

    unsure        entropy of the probabilities, divided by the largest that it can be
    contradicts   probability of the network's class, minus that of the mask's class;
                  0 where they agree, and where the mask is void

New images are also compared with those of the training. An image becomes the mean of the features
that the network's context reads. Its distance is that to the nearest training image, divided by
what is usual among the training images themselves.

Dimensions: h, w pixels, k classes, n images, m training images, d features.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reconet.data import Dataset, Sample, evenly_spaced
from reconet.data.dataset import FileDataset
from reconet.data.loader import SampleReader, Skipped, produce
from reconet.errors import DataError
from reconet.inference import Network, Protocol, whole_image
from reconet.inference.windows import best_class, probability_bands
from reconet.models.segmenter import Segmenter
from reconet.system.distributed import Processes
from reconet.system.progress import Progress
from reconet.types import IGNORE, Image, Label

BORDER = 100  # parts of the long side: how wide the border of an area is that does not count
LEAST = 1e-12  # a probability, so that its logarithm is finite
MOST_KNOWN = 1000  # training images to compare with, evenly spaced


@dataclass(frozen=True)
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


class Judged(NamedTuple):
    """What a network makes of an image."""

    predicted_hw: Label
    value_hw: NDArray[np.float32]  # unsure, or contradicts


@dataclass(frozen=True)
class Judge:
    """A network, and how images are shown to it."""

    network: Network
    protocol: Protocol
    device: torch.device

    def __call__(self, image_hwc: Image, label_hw: Label | None = None) -> Judged:
        """Judge an image: where the network contradicts its labels, or is unsure without them."""
        network, size = self.network, image_hwc.shape[:2]
        pixels_hwc = torch.from_numpy(image_hwc).to(self.device)
        given_hw = None if label_hw is None else torch.from_numpy(label_hw).to(self.device)
        predicted_hw, value_hw = np.empty(size, np.uint8), np.empty(size, np.float32)
        classes = len(network.info.classes)
        for rows, part_hkw in probability_bands(
            network.forward, pixels_hwc, self.protocol, classes
        ):
            value = unsure(part_hkw) if given_hw is None else contradicts(part_hkw, given_hw[rows])
            predicted_hw[rows] = best_class(part_hkw)[0].cpu().numpy()
            value_hw[rows] = value.cpu().numpy()
        return Judged(predicted_hw, value_hw)


@dataclass(frozen=True, kw_only=True)
class Ranker:
    """Ranks the images of a dataset, in one process or several."""

    judge: Judge
    processes: Processes
    workers: int
    progress: Progress
    skipped: list[dict[str, str]] = field(default_factory=list)  # name and reason

    def label_again(self, dataset: Dataset) -> list[Suggestion]:
        """Rank labelled images by how confidently the network contradicts their masks."""
        classes = self.judge.network.info.classes
        own = []
        for index, sample in self._read(dataset, range(len(dataset)), "compare with masks"):
            if not (sample.label_hw != IGNORE).any():
                self._skip(sample.name, "no pixel has a label")
                continue
            judged = self.judge(sample.image_hwc, sample.label_hw)
            given, found = main_contradiction(judged, sample.label_hw, len(classes))
            figures = {"disagreement": disagreement(judged, sample.label_hw)}
            says = (classes[given], classes[found]) if given != found else ("", "")
            files = _files_of(dataset, index)
            own.append(Suggestion(index, sample.name, figures, *says, files=files))
        return self._ordered(own)

    def label_next(self, dataset: Dataset, known: Dataset | None) -> list[Suggestion]:
        """Rank images without labels: unsure ones, unlike those of the dataset that is known."""
        model = self.judge.network.model if known is not None else None
        train_md = None if known is None or model is None else self._features(known, model)
        own, features = [], []
        for index, sample in self._read(dataset, range(len(dataset)), "look at images"):
            value_hw = self.judge(sample.image_hwc).value_hw
            figures = {"unsure": float(value_hw.mean(dtype=np.float64))}
            if model is not None:
                features.append(self._mean_features(model, sample.image_hwc))
            own.append(Suggestion(index, sample.name, figures, files=_files_of(dataset, index)))
        if train_md is not None and features:
            far_n = distances(torch.stack(features), train_md).tolist()
            for one, distance in zip(own, far_n, strict=True):
                one.figures["distance"] = distance
        return self._ordered(own)

    def _read(
        self, dataset: Dataset, indices: Sequence[int], task: str
    ) -> Iterator[tuple[int, Sample]]:
        """Yield the images of this process. Broken ones are named and left out.

        If one process fails otherwise, all do.
        """
        own = indices[self.processes.rank :: self.processes.size]
        self.progress.start(len(own), task)
        with self.processes.together():
            read = produce(SampleReader(dataset, "skip"), own, self.workers)
            for index, sample in zip(own, read, strict=True):
                self.progress.advance()
                if isinstance(sample, Sample):
                    yield index, sample
                elif isinstance(sample, Skipped):
                    self._skip(*sample)
                    where = "" if sample.name in sample.reason else f"{sample.name}: "
                    self.progress.note(f"left out: {where}{' '.join(sample.reason.split())}")

    def _skip(self, name: str, reason: str) -> None:
        self.skipped.append({"name": name, "reason": " ".join(reason.split())})

    @torch.no_grad()
    def _mean_features(self, model: Segmenter, image_hwc: Image) -> Tensor:
        """Return the features of an image, averaged over its places, on the CPU."""
        image_bchw = whole_image(image_hwc, self.judge.protocol.base_size)
        feature_d: Tensor = model.trunk(image_bchw.to(model.mean_c11.device)).c4.float()
        return feature_d.mean((0, 2, 3)).cpu()

    def _features(self, known: Dataset, model: Segmenter) -> Tensor | None:
        """Return the features of training images, the same on all processes."""
        chosen = evenly_spaced(len(known), MOST_KNOWN)
        read = self._read(known, chosen, "look at training images")
        own = [self._mean_features(model, sample.image_hwc) for _, sample in read]
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


def order_by_ranks(columns: Sequence[Sequence[float]]) -> list[int]:
    """Return the places of images, those first whose figures are large in all columns.

    The mean of an image's ranks in the columns decides, then the first column, then the order of
    the images. Equal figures share the mean of their ranks.
    """
    from scipy.stats import rankdata  # type: ignore[import-untyped]

    mean_n = rankdata(-np.asarray(columns, np.float64), axis=1).mean(0)
    return sorted(range(len(columns[0])), key=lambda n: (mean_n[n], -columns[0][n], n))


def _files_of(dataset: Dataset, index: int) -> dict[str, str]:
    """Return the files of an image, if it has some."""
    if not isinstance(dataset, FileDataset):
        return {}
    _, image, mask = dataset.pairs[index]
    return {"image": str(image)} | ({} if mask is None else {"mask": str(mask)})


def unsure(probability_hkw: Tensor) -> Tensor:
    """Return the entropy of each pixel, 0 to 1."""
    classes = probability_hkw.shape[1]
    log_hkw = probability_hkw.clamp_min(LEAST).log()
    entropy_hw = -(probability_hkw * log_hkw).sum(1) / math.log(max(2, classes))
    return entropy_hw.clamp(0, 1)


def contradicts(probability_hkw: Tensor, label_hw: Tensor) -> Tensor:
    """Return how much more probable the network's class is than the mask's, 0 to 1."""
    valid_hw = label_hw != IGNORE
    label_h1w = label_hw.where(valid_hw, 0).long().unsqueeze(1)
    given_hw = probability_hkw.gather(1, label_h1w).squeeze(1)
    return (best_class(probability_hkw)[1] - given_hw).clamp_(0, 1) * valid_hw


def distances(new_nd: Tensor, train_md: Tensor) -> Tensor:
    """Return the distance of each image to its nearest training image, by what is usual there."""
    nearest_n = torch.cdist(new_nd, train_md).amin(1)
    between_mm = torch.cdist(train_md, train_md).fill_diagonal_(torch.inf)
    usual = between_mm.amin(1).median()
    return nearest_n / usual if torch.isfinite(usual) and usual > 0 else nearest_n


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
