"""Measure how many ranks a learned attention uses, on a few images.

The measures come from lambda, and from the singular values of the attention unfolded along each of
its axes. An unfolding along n channels (rows, columns) has rank at most min(n, r), whatever the
paper's "maximum tensor rank" may be. The rank of the tensor itself can be larger than all three.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from reconet.data.dataset import Dataset, evenly_spaced
from reconet.models.context.low_rank import reconstruct
from reconet.models.decompose import decompose
from reconet.models.liveness import FactorAxis, effective_rank, singular_values
from reconet.models.segmenter import Segmenter

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
def measure_spectrum(model: Segmenter, dataset: Dataset, device: torch.device) -> Spectrum | None:
    """Measure the low-rank tensor of a network, A or Y. Contexts without ranks have none."""
    if model.context.low_rank_head() is None:
        return None
    values: dict[str, list[Tensor]] = {axis: [] for axis in AXES}
    attention = []
    weight_r = torch.empty(0)
    for index in evenly_spaced(len(dataset), IMAGES):
        image_hwc = torch.from_numpy(dataset[index].image_hwc)
        factors = decompose(model, image_hwc.permute(2, 0, 1)[None].to(device)).factors
        weight_r = factors.weight_r.double().cpu()
        for axis in AXES:
            values[axis].append(singular_values(factors, axis)[0].cpu())
        attention.append(reconstruct(factors)[0].double().cpu())
    table = {"lambda": weight_r.abs().sort(descending=True).values[None]}
    table |= {axis: torch.stack(rows) for axis, rows in values.items()}
    return Spectrum(
        rank=weight_r.numel(),
        effective={name: effective_rank(v).mean().item() for name, v in table.items()},
        for_90={name: count_for_share(v, 0.90).mean().item() for name, v in table.items()},
        for_99={name: count_for_share(v, 0.99).mean().item() for name, v in table.items()},
        between_images=variation_between_images(attention),
    )


def energy_shares(value_bn: Tensor) -> Tensor:
    """Return the share of each value in the energy of all."""
    energy_bn = value_bn.square()
    return energy_bn / energy_bn.sum(-1, keepdim=True)


def count_for_share(value_bn: Tensor, share: float) -> Tensor:
    """Return how many of the values, which are sorted, hold this share of the energy."""
    held_bn = energy_shares(value_bn).cumsum(-1)
    return (held_bn < share - 1e-12).sum(-1).double() + 1


def variation_between_images(attention: list[Tensor]) -> float:
    """Return how much A differs between images at one position and channel.

    Images that differ in size are compared by the means over their positions.
    """
    if len({a.shape for a in attention}) > 1:
        attention = [a.mean((1, 2)) for a in attention]
    stacked = torch.stack(attention)
    return (stacked.std(0, correction=0).square().mean().sqrt() / stacked.mean().abs()).item()
