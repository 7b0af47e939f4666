"""Compute scores from a confusion matrix, and from counts of pixels at boundaries.

These functions are pure. The caller sums over images and processes. What is special to a benchmark
is declared in the file of its dataset: absent classes and extra scores.

Dimensions: n pixels, h, w rows and columns, k classes. count_kk[t, p] = pixels of true class t
predicted as p. boundary_3k = pixels at boundaries of a class: true and predicted, true, predicted.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reconet.data import DATASETS
from reconet.types import IGNORE, Label

BAND = 0.02  # width of the band along boundaries, as a part of the image's diagonal


@dataclass(frozen=True)
class Scores:
    """Fractions in [0, 1] in double precision. NaN where there was nothing to score.

    A class absent from truth and prediction has no IoU (NaN) and is left out of `mean_iou`. A
    class absent from the truth has no accuracy and is left out of `mean_accuracy`.
    """

    count_kk: Tensor
    classes: tuple[str, ...]
    iou_k: Tensor
    mean_iou: float
    pixel_accuracy: float
    mean_accuracy: float
    frequency_weighted_iou: float

    def mean_iou_without(self, *classes: str) -> float:
        """Average over the other classes. Pixels of `classes` are not scored."""
        out_k = torch.tensor([name in classes for name in self.classes])
        scored_kk = self.count_kk.masked_fill(out_k[:, None], 0)
        return scores(scored_kk).iou_k[~out_k].nanmean().item()


def confusion_matrix(label_n: Tensor, predicted_n: Tensor, num_classes: int) -> Tensor:
    """Count (true, predicted) pairs as int64. Labels outside [0, num_classes) are not scored.

    Shape and integer type are free. `long()` because the pair index would overflow in uint8.
    """
    label_n, predicted_n = label_n.flatten().long(), predicted_n.flatten().long()
    scored_n = (label_n >= 0) & (label_n < num_classes)
    if (
        predicted_n.numel()
        and not 0 <= int(predicted_n.min()) <= int(predicted_n.max()) < num_classes
    ):
        raise ValueError(f"predictions are outside the {num_classes} classes")
    pair_n = label_n[scored_n] * num_classes + predicted_n[scored_n]
    return torch.bincount(pair_n, minlength=num_classes**2).view(num_classes, num_classes)


def scores(count_kk: Tensor, classes: tuple[str, ...] = ()) -> Scores:
    """Compute all scores of a confusion matrix."""
    exact_kk = count_kk.double()
    hit_k, truth_k, predicted_k = exact_kk.diag(), exact_kk.sum(1), exact_kk.sum(0)
    iou_k = hit_k / (truth_k + predicted_k - hit_k)  # 0/0 is NaN on purpose: see Scores
    present_k = truth_k > 0
    return Scores(
        count_kk=count_kk,
        classes=classes,
        iou_k=iou_k,
        mean_iou=iou_k.nanmean().item(),
        pixel_accuracy=(hit_k.sum() / truth_k.sum()).item(),
        mean_accuracy=(hit_k / truth_k).nanmean().item(),
        frequency_weighted_iou=((truth_k * iou_k)[present_k].sum() / truth_k.sum()).item(),
    )


def benchmark_scores(count_kk: Tensor, dataset: str, classes: tuple[str, ...]) -> Scores:
    """Return the scores. Classes that the benchmark leaves out of the mean have no IoU.

    A dataset that is not registered has plain scores.
    """
    result = scores(count_kk, classes)
    absent = DATASETS[dataset].absent_classes if dataset in DATASETS else ()
    if not absent:
        return result
    out_k = torch.tensor([name in absent for name in classes]) & (count_kk.sum(1) == 0)
    iou_k = result.iou_k.masked_fill(out_k, torch.nan)
    return replace(result, iou_k=iou_k, mean_iou=iou_k.nanmean().item())


def named_scores(
    count_kk: Tensor, dataset: str, classes: tuple[str, ...], boundary_3k: Tensor | None = None
) -> dict[str, float]:
    """Return the usual scores and the extra scores of this dataset, by name.

    Boundary IoU is among them if pixels at boundaries were counted.
    """
    result = benchmark_scores(count_kk, dataset, classes)
    extra = DATASETS[dataset].extra_scores if dataset in DATASETS else {}
    boundary = {}
    if boundary_3k is not None:  # of the classes that the mIoU is a mean over
        iou_k = boundary_iou(boundary_3k)[~result.iou_k.isnan()]
        boundary = {"boundary_iou": iou_k.nanmean().item()}
    return {
        "miou": result.mean_iou,
        **boundary,
        "pixel_accuracy": result.pixel_accuracy,
        "mean_accuracy": result.mean_accuracy,
        "frequency_weighted_iou": result.frequency_weighted_iou,
        **{key: score.compute(result) for key, score in extra.items()},
    }


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


def count_boundaries(label_hw: Label, predicted_hw: Label, num_classes: int) -> NDArray[np.int64]:
    """Count the pixels in the inner bands along the boundaries of each class: boundary_3k.

    Cheng et al., "Boundary IoU" (CVPR 2021), for classes in place of objects. Void pixels belong to
    no class, neither in the truth nor in the prediction. The border of the image is a boundary.
    """
    band = max(1, round(BAND * math.hypot(*label_hw.shape)))
    predicted_hw = np.where(label_hw == IGNORE, IGNORE, predicted_hw)
    counts_3k = np.zeros((3, num_classes), np.int64)
    for k in np.union1d(np.unique(label_hw), np.unique(predicted_hw)):
        if k < num_classes:
            true_hw, found_hw = (_inner_band(x_hw == k, band) for x_hw in (label_hw, predicted_hw))
            counts_3k[:, k] = (true_hw & found_hw).sum(), true_hw.sum(), found_hw.sum()
    return counts_3k


def boundary_iou(boundary_3k: Tensor) -> Tensor:
    """Return the boundary IoU of each class. NaN for a class without boundaries."""
    both_k, true_k, found_k = boundary_3k.double()
    iou_k: Tensor = both_k / (true_k + found_k - both_k)
    return iou_k


def _inner_band(mask_hw: NDArray[np.bool_], band: int) -> NDArray[np.bool_]:
    """Return the pixels of a mask that are at most `band` rows or columns from its outside."""
    kernel = np.ones((3, 3), np.uint8)
    inside_hw = cv2.erode(
        mask_hw.astype(np.uint8),
        kernel,
        iterations=band,
        borderType=cv2.BORDER_CONSTANT,
        borderValue=0,
    )
    band_hw: NDArray[np.bool_] = mask_hw & (inside_hw == 0)
    return band_hw
