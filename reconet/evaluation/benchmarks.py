"""The scores that each benchmark is quoted by, from one confusion matrix.

What is special to a dataset is declared in its file: absent classes and extra scores.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reconet.data import DATASETS
from reconet.evaluation.metrics import BAND, Scores, boundary_iou, scores


def benchmark_scores(count_kk: Tensor, dataset: str, classes: tuple[str, ...]) -> Scores:
    """Return the scores. Classes that the benchmark leaves out of the mean have no IoU.

    A dataset that is not registered has plain scores.
    """
    result = scores(count_kk)
    absent = DATASETS[dataset].absent_classes if dataset in DATASETS else ()
    if not absent:
        return result
    out_k = torch.tensor([name in absent for name in classes])
    out_k &= count_kk.sum(1) == 0
    iou_k = result.iou_k.masked_fill(out_k, torch.nan)
    return result._replace(iou_k=iou_k, mean_iou=iou_k.nanmean())


def named_scores(
    count_kk: Tensor, dataset: str, classes: tuple[str, ...], boundary_3k: Tensor | None = None
) -> dict[str, float]:
    """Return the usual scores and the extra scores of this dataset, by name.

    Boundary IoU is among them if pixels at boundaries were counted.
    """
    result = benchmark_scores(count_kk, dataset, classes)
    extra = DATASETS[dataset].extra_scores if dataset in DATASETS else {}
    usual = _UsualScores(result, count_kk, classes)
    boundary = {}
    if boundary_3k is not None:  # of the classes that the mIoU is a mean over
        iou_k = boundary_iou(boundary_3k)[~result.iou_k.isnan()]
        boundary = {"boundary_iou": iou_k.nanmean().item()}
    return {
        "miou": usual.mean_iou,
        **boundary,
        "pixel_accuracy": usual.pixel_accuracy,
        "mean_accuracy": result.mean_accuracy.item(),
        "frequency_weighted_iou": result.frequency_weighted_iou.item(),
    } | {key: score.compute(usual) for key, score in extra.items()}


def score_labels() -> dict[str, str]:
    """Return the label of every score in tables, in the order in which they are printed."""
    extra = {
        key: score.label for entry in DATASETS.values() for key, score in entry.extra_scores.items()
    }
    return {
        "miou": "mIoU",
        "boundary_iou": f"boundary IoU ({100 * BAND:g} % of the diagonal)",
        **extra,
        "pixel_accuracy": "pixel accuracy",
        "mean_accuracy": "mean accuracy",
        "frequency_weighted_iou": "frequency weighted IoU",
    }


def without_nan(value: Any) -> Any:
    """Replace NaN and infinity by None, in lists and tables too: JSON does not have them."""
    if isinstance(value, dict):
        return {key: without_nan(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class _UsualScores:
    """What the extra scores of a dataset are computed from (reconet/data/entry.py)."""

    result: Scores
    count_kk: Tensor
    classes: tuple[str, ...]

    @property
    def mean_iou(self) -> float:
        return self.result.mean_iou.item()

    @property
    def pixel_accuracy(self) -> float:
        return self.result.pixel_accuracy.item()

    def mean_iou_without(self, *classes: str) -> float:
        out_k = torch.tensor([name in classes for name in self.classes])
        scored_kk = self.count_kk.masked_fill(out_k[:, None], 0)
        return scores(scored_kk).iou_k[~out_k].nanmean().item()
