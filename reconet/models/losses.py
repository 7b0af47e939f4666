"""The loss, as a function of logits and labels, without state: a weighted sum of terms.

A pixel term gives a number for each pixel. Its sum is divided by the number of labelled pixels of
the whole optimiser step. A region term compares whole regions, and gives a number for each image.
Its sum is divided by the number of images of the step that have a label. The engine counts both
over all processes and micro-batches, so that one process, many processes and accumulation give the
same gradient. A crop of void only adds zero, not NaN.

To add a term, write a function, add one line to PIXEL_TERMS or REGION_TERMS, and add a setting of
its name to `Loss` in recipes/schema.py.

Dimensions: b batch, k classes, h rows, w columns, n labelled pixels of one image, p classes that
are present in it.
"""

from collections.abc import Callable, Iterable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from reconet.models.features import Logits
from reconet.models.layers import resize
from reconet.recipes.schema import Loss
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
DEFAULT = Loss()


def segmentation_loss(
    logits: Logits,
    label_bhw: Tensor,
    settings: Loss = DEFAULT,
    *,
    counts_2: Tensor | None = None,
    class_weight_k: Tensor | None = None,
) -> Tensor:
    """Compute main + aux_weight * aux. Without `counts_2`, pixels and images of this batch count.

    The weights of classes are an argument, because balanced ones are not in the settings.
    """
    if counts_2 is None:
        counts_2 = step_counts(label_bhw, class_weight_k)
    weight_bhw = _hard_pixels(logits.main_bkhw, label_bhw, settings)
    total = _sums(logits.main_bkhw, label_bhw, settings, class_weight_k, weight_bhw)
    if logits.aux_bkhw is not None:
        aux = _sums(logits.aux_bkhw, label_bhw, settings, class_weight_k, None)
        total = total + settings.aux_weight * aux
    return (total / counts_2.where(counts_2 > 0, 1)).sum()


def term_weights(settings: Loss, terms: Iterable[str]) -> dict[str, float]:
    """Return the weights of those terms that a loss has."""
    return {name: weight for name in terms if (weight := getattr(settings, name)) > 0}


def step_counts(label_bhw: Tensor, class_weight_k: Tensor | None = None) -> Tensor:
    """Count what the terms are averaged over: labelled pixels, and images that have a label.

    With class weights, the weights of the pixels are added up.
    """
    images = (label_bhw != IGNORE).flatten(1).any(1).sum()
    pixels = valid_pixels(label_bhw, class_weight_k)
    return torch.stack([pixels, images.to(pixels.dtype)])


def valid_pixels(label_bhw: Tensor, class_weight_k: Tensor | None = None) -> Tensor:
    """Count the pixels that have a label. With class weights, add up their weights."""
    if class_weight_k is None:
        return (label_bhw != IGNORE).sum()
    known_bhw = label_bhw != IGNORE  # chosen by where(): a GPU need not tell how many there are
    weight_bhw = class_weight_k[label_bhw.where(known_bhw, 0).long()]
    return weight_bhw.where(known_bhw, 0).sum()


def _sums(
    logits_bkhw: Tensor,
    label_bhw: Tensor,
    settings: Loss,
    class_weight_k: Tensor | None,
    weight_bhw: Tensor | None,
) -> Tensor:
    """Sum the pixel terms over pixels, and the region terms over images."""
    logits_bkhw = logits_bkhw.float()  # the sum over many pixels needs more digits than bf16 has
    pixels = logits_bkhw.new_zeros(())
    for name, factor in term_weights(settings, PIXEL_TERMS).items():
        loss_bhw = PIXEL_TERMS[name](logits_bkhw, label_bhw, class_weight_k, settings.focal_gamma)
        pixels = pixels + factor * (loss_bhw if weight_bhw is None else loss_bhw * weight_bhw).sum()
    regions = term_weights(settings, REGION_TERMS)
    return torch.stack([pixels, _region_sum(logits_bkhw, label_bhw, regions)])


def _region_sum(logits_bkhw: Tensor, label_bhw: Tensor, weights: Mapping[str, float]) -> Tensor:
    if not weights:
        return logits_bkhw.new_zeros(())
    total = 0 * logits_bkhw.sum()  # so that a batch of void has gradients too, of zero
    for logits_khw, label_hw in zip(logits_bkhw, label_bhw, strict=True):
        known_hw = label_hw != IGNORE
        if known_hw.any():
            probability_kn = logits_khw[:, known_hw].softmax(0)
            label_n = label_hw[known_hw].long()
            for name, factor in weights.items():
                total = total + factor * REGION_TERMS[name](probability_kn, label_n)
    return total


def _hard_pixels(logits_bkhw: Tensor, label_bhw: Tensor, settings: Loss) -> Tensor | None:
    """Select hard pixels (online hard example mining): 1 to learn from a pixel, else 0.

    A pixel is hard if its true class has a probability below `ohem`. At least `ohem_min_kept`
    pixels of each image are kept. The choice is made image by image, so that it does not depend
    on how a batch is split over processes.
    """
    if settings.ohem is None:
        return None
    with torch.no_grad():
        known_bhw = label_bhw != IGNORE
        index_b1hw = label_bhw.long().where(known_bhw, 0).unsqueeze(1)
        true_bhw = logits_bkhw.float().softmax(1).gather(1, index_b1hw).squeeze(1)
        true_bn = true_bhw.masked_fill(~known_bhw, 2.0).flatten(1)  # void is never among the hard
        hard_bn = true_bn < settings.ohem
        kept = min(settings.ohem_min_kept, true_bn.shape[1])
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
