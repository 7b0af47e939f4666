"""Tensors of low rank, and what a context offers that is made of one.

A low-rank tensor is a sum of r products of a vector along channels and a plane:

    tensor_bchw = sum_r weight_r channel_rc (x) plane_rhw

So its unfolding along channels has rank r at most. In reconet it is an attention A that re-weights
the map, in reconet_plus a context Y that joins it. In reconet each plane is itself a product, of a
column and a row (outer_planes). Then r bounds the rank of the tensor too.
All that takes a network apart rank by rank (explain, prune, serve, study) knows no more of a
context than this file says.

Dimensions: b batch, c channels, h rows, w columns, r rank, n places of the map.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn


class Factors(NamedTuple):
    """Factors of a rank-r tensor: sum_r weight_r * channel_rc (outer) plane_rhw."""

    weight_r: Tensor
    channel_brc: Tensor
    plane_brhw: Tensor


def outer_planes(row_brh: Tensor, column_brw: Tensor) -> Tensor:
    """Compute planes, plane_brhw, that are outer products of one column and one row."""
    return row_brh.unsqueeze(3) * column_brw.unsqueeze(2)


def reconstruct(factors: Factors) -> Tensor:
    """Compute the tensor_bchw of its factors, as one product (c x r) @ (r x hw).

    Nothing of size r x c x h x w ever exists: the weights go into the smallest factor.
    """
    weight_r, channel_brc, plane_brhw = factors
    tensor_bcn = (channel_brc * weight_r[:, None]).transpose(1, 2) @ plane_brhw.flatten(2)
    return tensor_bcn.view(-1, channel_brc.shape[2], *plane_brhw.shape[2:])


@dataclass(frozen=True, kw_only=True)
class RankWords:
    """What pages call the tensor of a context, and what they say about it."""

    symbol: str  # of the tensor: A
    name: str  # what it is: attention
    above: str  # title of a rank's first map, with {} for its number
    below: str  # of its second map, the tensor of this rank
    title: str  # of the section with these maps
    about: str  # what the maps show


class LowRankCore(nn.Module):
    """The core of a context, x_bchw -> y_bchw, by a rank-r tensor that is made from the map."""

    words: ClassVar[RankWords]
    multiplies: ClassVar[bool]  # the tensor re-weights the map; otherwise it is the result itself
    pruned_options: ClassVar[Mapping[str, Any]] = {}  # of a context that has lost ranks
    rank: int

    def factors(self, x_bchw: Tensor) -> Factors:
        """Compute the tensor of a map, in factors."""
        raise NotImplementedError

    def gather_masks(self, x_bchw: Tensor) -> Tensor | None:
        """Compute where each rank looks, mask_brhw: it sums to 1. None: at the whole map."""
        return None

    def apply_tensor(self, x_bchw: Tensor, tensor_bchw: Tensor) -> Tensor:
        """Compute the result of the core from a map and a tensor, its own or another."""
        return x_bchw * tensor_bchw if self.multiplies else tensor_bchw

    def state_of_ranks(self, kept: Sequence[int]) -> dict[str, Tensor]:
        """Return the state_dict of a core with only some of the ranks, each as it was."""
        raise NotImplementedError


class LowRankHead(NamedTuple):
    """The layers of a context around such a core: [X, core, perhaps pooled X] -> fuse."""

    reduce: nn.Module
    core: LowRankCore
    pool: nn.Module | None
    fuse: nn.Sequential  # a 1x1 convolution, a norm and a ReLU
