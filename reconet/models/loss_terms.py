"""The terms of the loss, one function each. A loss is a weighted sum of them (losses.py).

A pixel term gives a number for each pixel, and its mean is over all labelled pixels of a step. A
region term compares whole regions, and gives a number for each image. Its mean is over the images
of a step that have a label. Neither kind of number depends on the other images, so any split of a
step over processes and micro-batches adds up to the same loss.

To add a term, write a function, add one line to PIXEL_TERMS or REGION_TERMS, and add a setting of
its name to `Loss` in recipes/schema.py.

Dimensions: b batch, k classes, h rows, w columns, n labelled pixels of one image, p classes that
are present in it.
"""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from reconet.types import IGNORE

GAMMA = 2.0  # of the focal loss, as in its paper

PixelTerm = Callable[[Tensor, Tensor, Tensor | None, float], Tensor]
RegionTerm = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(
    logits_bkhw: Tensor, label_bhw: Tensor, class_weight_k: Tensor | None, _gamma: float = GAMMA
) -> Tensor:
    """Compute the cross entropy of each pixel, times the weight of its class. Void gives 0."""
    return F.cross_entropy(
        logits_bkhw,
        label_bhw.long(),
        weight=None if class_weight_k is None else class_weight_k.to(logits_bkhw.dtype),
        ignore_index=IGNORE,
        reduction="none",
    )


def focal(
    logits_bkhw: Tensor, label_bhw: Tensor, class_weight_k: Tensor | None, gamma: float = GAMMA
) -> Tensor:
    """Multiply the cross entropy by (1 - p)^gamma, where p is the probability of the true class.

    Pixels that the network is sure of count less (Lin et al., 2017).
    """
    plain_bhw = cross_entropy(logits_bkhw, label_bhw, None)
    weighted_bhw = cross_entropy(logits_bkhw, label_bhw, class_weight_k)
    unsure_bhw = -torch.expm1(-plain_bhw)  # 1 - p, also where p is almost 1
    return unsure_bhw**gamma * weighted_bhw


def dice(probability_kn: Tensor, label_n: Tensor) -> Tensor:
    """Average 1 - 2 |A and B| / (|A| + |B|) over the classes that are present in an image.

    A are the pixels of a class, B its predictions, and a probability is a part of a pixel.
    """
    probability_pn, truth_pn = present(probability_kn, label_n)
    common_p = (probability_pn * truth_pn).sum(1)
    sizes_p = probability_pn.sum(1) + truth_pn.sum(1)
    return (1 - 2 * common_p / sizes_p).mean()


def lovasz(probability_kn: Tensor, label_n: Tensor) -> Tensor:
    """Average the Lovasz extension of 1 - IoU over the classes that are present in an image.

    The errors of a class are sorted, largest first. Each is multiplied by how much 1 - IoU grows
    when its pixel joins the wrong ones (Berman et al., 2018).
    """
    probability_pn, truth_pn = present(probability_kn, label_n)
    error_pn = (truth_pn - probability_pn).abs()
    sorted_pn, order_pn = error_pn.sort(dim=1, descending=True, stable=True)
    return (sorted_pn * iou_steps(truth_pn.gather(1, order_pn))).sum(1).mean()


def iou_steps(truth_pn: Tensor) -> Tensor:
    """Return how much 1 - IoU grows with each pixel, if pixels become wrong from left to right."""
    inside_pn = truth_pn.long()  # whole numbers: sums of them are exact
    right_pn = inside_pn.sum(1, keepdim=True) - inside_pn.cumsum(1)
    union_pn = inside_pn.sum(1, keepdim=True) + (1 - inside_pn).cumsum(1)
    lost_pn = 1 - right_pn.to(truth_pn.dtype) / union_pn
    return torch.cat([lost_pn[:, :1], lost_pn.diff(dim=1)], dim=1)


def present(probability_kn: Tensor, label_n: Tensor) -> tuple[Tensor, Tensor]:
    """Return probabilities and truth (0 or 1) of the classes that some pixel has."""
    class_p = label_n.unique()
    truth_pn = (label_n[None] == class_p[:, None]).to(probability_kn.dtype)
    return probability_kn[class_p], truth_pn


PIXEL_TERMS: Mapping[str, PixelTerm] = {"cross_entropy": cross_entropy, "focal": focal}
REGION_TERMS: Mapping[str, RegionTerm] = {"dice": dice, "lovasz": lovasz}
