"""Compute scores from a confusion matrix.

These functions are pure. The caller sums over images and processes.

Dimensions: n pixels, k classes. count_kk[t, p] = pixels of true class t predicted as p.
"""

from typing import NamedTuple

import torch
from torch import Tensor


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
