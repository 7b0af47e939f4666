"""How many ranks does a learned attention use? From lambda and from the singular values of the
attention unfolded along each of its axes, on a few images.

An unfolding along n channels (rows, columns) has rank at most min(n, r), whatever the paper's
"maximum tensor rank" may be; the rank of the tensor itself can be larger than any of the three.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from reconet.data.dataset import Dataset, spread_indices
from reconet.models.context.reconet import TensorReconstruction, reconstruct
from reconet.models.decompose import look_inside
from reconet.models.liveness import Axis, effective_rank, singular_values
from reconet.models.segmenter import Segmenter

IMAGES = 8
AXES: tuple[Axis, ...] = ("channel", "row", "column")


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """Means over images. Energy is the sum of squared singular values (of lambda: squares)."""

    rank: int
    effective: dict[str, float]  # by lambda, channel, row, column
    for_90: dict[str, float]  # how many it takes for 90 % of the energy
    for_99: dict[str, float]
    between_images: float  # std of A over images at one place, over its mean; 0: A is constant


@torch.no_grad()
def spectrum(model: Segmenter, dataset: Dataset, device: torch.device) -> Spectrum | None:
    """None for contexts without a tensor reconstruction."""
    if not isinstance(model.context.core, TensorReconstruction):
        return None
    values: dict[str, list[Tensor]] = {axis: [] for axis in AXES}
    attention = []
    weight_r = torch.empty(0)
    for index in spread_indices(len(dataset), IMAGES):
        image_hwc = torch.from_numpy(dataset[index].image_hwc)
        factors = look_inside(model, image_hwc.permute(2, 0, 1)[None].to(device)).factors
        weight_r = factors.weight_r.double().cpu()
        for axis in AXES:
            values[axis].append(singular_values(factors, axis)[0].cpu())
        attention.append(reconstruct(factors)[0].double().cpu())
    table = {"lambda": weight_r.abs().sort(descending=True).values[None]}
    table |= {axis: torch.stack(rows) for axis, rows in values.items()}
    return Spectrum(
        rank=weight_r.numel(),
        effective={name: effective_rank(v).mean().item() for name, v in table.items()},
        for_90={name: needed(v, 0.90).mean().item() for name, v in table.items()},
        for_99={name: needed(v, 0.99).mean().item() for name, v in table.items()},
        between_images=between(attention),
    )


def shares(value_bn: Tensor) -> Tensor:
    """Of each value in the energy of all."""
    energy_bn = value_bn.square()
    return energy_bn / energy_bn.sum(-1, keepdim=True)


def needed(value_bn: Tensor, share: float) -> Tensor:
    """How many of the values, largest first, hold this share of the energy."""
    held_bn = shares(value_bn).cumsum(-1)
    return (held_bn < share - 1e-12).sum(-1).double() + 1


def between(attention: list[Tensor]) -> float:
    """How much A differs between images at one place and channel; images may differ in size,
    and are then compared by the means over their places."""
    if len({a.shape for a in attention}) > 1:
        attention = [a.mean((1, 2)) for a in attention]
    stacked = torch.stack(attention)
    return (stacked.std(0, correction=0).square().mean().sqrt() / stacked.mean().abs()).item()
