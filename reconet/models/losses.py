"""The loss, as a function of logits and labels, without state.

Every term is a sum over pixels divided by `pixels`, the number of labelled pixels of the whole
optimiser step. The engine counts them over all processes and micro-batches, so that one process,
many processes and accumulation give the same gradient. A crop of void only adds zero, not NaN.

Dimensions: b batch, k classes, h rows, w columns.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from reconet.models.features import Logits
from reconet.models.layers import resize
from reconet.types import IGNORE


def segmentation_loss(
    logits: Logits,
    label_bhw: Tensor,
    *,
    pixels: Tensor | None = None,
    aux_weight: float = 0.2,
    ohem: float | None = None,
    ohem_min_kept: int = 10_000,
    class_weight_k: Tensor | None = None,
) -> Tensor:
    """Compute main + aux_weight * aux. Without `pixels`, those of this batch count."""
    if pixels is None:
        pixels = valid_pixels(label_bhw, class_weight_k)
    weight_bhw = _pixel_weight(logits.main_bkhw, label_bhw, ohem, ohem_min_kept)
    total = _cross_entropy_sum(logits.main_bkhw, label_bhw, class_weight_k, weight_bhw)
    if logits.aux_bkhw is not None:
        aux = _cross_entropy_sum(logits.aux_bkhw, label_bhw, class_weight_k, None)
        total = total + aux_weight * aux
    return total / pixels.where(pixels > 0, 1)


def valid_pixels(label_bhw: Tensor, class_weight_k: Tensor | None = None) -> Tensor:
    """Count the pixels that have a label. With class weights, add up their weights."""
    if class_weight_k is None:
        return (label_bhw != IGNORE).sum()
    return class_weight_k[label_bhw[label_bhw != IGNORE].long()].sum()


def _cross_entropy_sum(
    logits_bkhw: Tensor,
    label_bhw: Tensor,
    class_weight_k: Tensor | None,
    weight_bhw: Tensor | None,
) -> Tensor:
    loss_bhw = F.cross_entropy(
        logits_bkhw.float(),  # the sum over many pixels needs more digits than bf16 has
        label_bhw.long(),
        weight=None if class_weight_k is None else class_weight_k.float(),
        ignore_index=IGNORE,
        reduction="none",
    )
    return (loss_bhw if weight_bhw is None else loss_bhw * weight_bhw).sum()


def _pixel_weight(
    logits_bkhw: Tensor, label_bhw: Tensor, ohem: float | None, min_kept: int
) -> Tensor | None:
    """Select hard pixels (online hard example mining): 1 to learn from a pixel, else 0.

    A pixel is hard if its true class has a probability below `ohem`. At least `min_kept` pixels of
    each image are kept. The choice is made image by image, so that it does not depend on how a
    batch is split over processes.
    """
    if ohem is None:
        return None
    with torch.no_grad():
        known_bhw = label_bhw != IGNORE
        index_b1hw = label_bhw.long().where(known_bhw, 0).unsqueeze(1)
        true_bhw = logits_bkhw.float().softmax(1).gather(1, index_b1hw).squeeze(1)
        true_bn = true_bhw.masked_fill(~known_bhw, 2.0).flatten(1)  # void is never among the hard
        hard_bn = true_bn < ohem
        kept = min(min_kept, true_bn.shape[1])
        if kept > 0:
            hard_bn |= true_bn <= true_bn.kthvalue(kept, dim=1, keepdim=True).values
        return hard_bn.view_as(true_bhw).float()


def side_loss(logits_bkhw: Tensor, label_bhw: Tensor) -> Tensor:
    """Average the cross entropy over the labelled pixels of each image, and then over images.

    An image without labels counts as 0. Logits may have any size. Because it goes image by image,
    parts of a batch add up to the whole.
    """
    full_bkhw = resize(logits_bkhw.float(), (label_bhw.shape[1], label_bhw.shape[2]))
    loss_bhw = F.cross_entropy(full_bkhw, label_bhw.long(), ignore_index=IGNORE, reduction="none")
    labelled_b = (label_bhw != IGNORE).sum(dim=(1, 2))
    return (loss_bhw.sum(dim=(1, 2)) / labelled_b.clamp(min=1)).mean()
