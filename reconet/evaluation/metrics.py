"""Compute scores from a confusion matrix, and from counts of pixels at boundaries.

These functions are pure. The caller sums over images and processes.

Dimensions: n pixels, h, w rows and columns, k classes. count_kk[t, p] = pixels of true class t
predicted as p. boundary_3k = pixels at boundaries of a class: true and predicted, true, predicted.
"""

import math
from typing import NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reconet.types import IGNORE, Label

BAND = 0.02  # width of the band along boundaries, as a part of the image's diagonal


class Scores(NamedTuple):
    """Fractions in [0, 1] in double precision. NaN where there was nothing to score.

    A class absent from truth and prediction has no IoU (NaN) and is left out of `mean_iou`. A
    class absent from the truth has no accuracy and is left out of `mean_accuracy`.
    """

    pixel_accuracy: Tensor
    mean_accuracy: Tensor
    mean_iou: Tensor
    frequency_weighted_iou: Tensor
    iou_k: Tensor


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


def scores(count_kk: Tensor) -> Scores:
    """Compute all scores of a confusion matrix."""
    count_kk = count_kk.double()
    hit_k, truth_k, predicted_k = count_kk.diag(), count_kk.sum(1), count_kk.sum(0)
    iou_k = hit_k / (truth_k + predicted_k - hit_k)  # 0/0 is NaN on purpose: see Scores
    pixels = truth_k.sum()
    present_k = truth_k > 0
    return Scores(
        pixel_accuracy=hit_k.sum() / pixels,
        mean_accuracy=(hit_k / truth_k).nanmean(),
        mean_iou=iou_k.nanmean(),
        frequency_weighted_iou=(truth_k * iou_k)[present_k].sum() / pixels,
        iou_k=iou_k,
    )


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
