"""Measure how many ranks a learned attention uses, on a few images.

The measures come from lambda, and from the singular values of the attention unfolded along each of
its axes. In reconet an unfolding along n channels (rows, columns) has rank at most min(n, r),
whatever the paper's "maximum tensor rank" may be. The rank of the tensor itself can be larger than
all three.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from reconet.data.dataset import Dataset, evenly_spaced
from reconet.inference.windows import whole_image
from reconet.models.context.low_rank import reconstruct
from reconet.models.decompose import decompose
from reconet.models.layers import resize
from reconet.models.liveness import FactorAxis, effective_rank, singular_values
from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Data

IMAGES = 8
AXES: tuple[FactorAxis, ...] = ("channel", "row", "column")
PARTS = ("lambda", *AXES)


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """The ranks that an attention uses, as means over images.

    Energy is the sum of squared singular values, or of the squares of lambda.
    """

    rank: int
    effective: dict[str, float]  # effective rank, by PARTS
    for_90: dict[str, float]  # number of values that hold 90 % of the energy
    for_99: dict[str, float]
    between_images: float  # std of A over images at one position, over its mean; 0: constant


@torch.no_grad()
def measure_spectrum(
    model: Segmenter, dataset: Dataset, data: Data, device: torch.device
) -> Spectrum | None:
    """Measure the low-rank tensor of a network, A or Y. Contexts without ranks have none.

    Images differ in size. To compare them, each tensor is resized to that of the training crop.
    """
    if model.context.low_rank_head() is None:
        return None
    stage = model.backbone.stages(data.crop).c4
    values: dict[str, list[Tensor]] = {part: [] for part in PARTS}
    attention = []
    weight_r = torch.empty(0)
    for index in evenly_spaced(len(dataset), IMAGES):
        image_bchw = whole_image(dataset[index].image_hwc, data.base_size)
        factors = decompose(model, image_bchw.to(device)).factors
        weight_r = factors.weight_r.cpu().double()
        values["lambda"].append(weight_r.abs().sort(descending=True).values)
        for axis in AXES:
            values[axis].append(singular_values(factors, axis)[0])
        attention_bchw = reconstruct(factors).cpu().double()
        attention.append(resize(attention_bchw, (stage.height, stage.width))[0])

    def mean(measure: Callable[[Tensor], Tensor]) -> dict[str, float]:
        # Image by image: maps of other sizes have other numbers of values.
        rows = {part: [measure(value_n[None]).item() for value_n in values[part]] for part in PARTS}
        return {part: sum(row) / len(row) for part, row in rows.items()}

    return Spectrum(
        rank=weight_r.numel(),
        effective=mean(effective_rank),
        for_90=mean(partial(count_for_share, share=0.90)),
        for_99=mean(partial(count_for_share, share=0.99)),
        between_images=variation_between_images(torch.stack(attention)),
    )


def energy_shares(value_bn: Tensor) -> Tensor:
    """Return the share of each value in the energy of all."""
    energy_bn = value_bn.square()
    return energy_bn / energy_bn.sum(-1, keepdim=True)


def count_for_share(value_bn: Tensor, share: float) -> Tensor:
    """Return how many of the values, which are sorted, hold this share of the energy."""
    held_bn = energy_shares(value_bn).cumsum(-1)
    return (held_bn < share - 1e-12).sum(-1).double() + 1


def variation_between_images(attention_bchw: Tensor) -> float:
    """Return how much A differs between images at one position and channel, over its mean."""
    spread_chw = attention_bchw.std(0, correction=0)
    return (spread_chw.square().mean().sqrt() / attention_bchw.mean().abs()).item()
