"""Take the low-rank tensor of a context apart, rank by rank, for one pass of the network.

The tensor is a sum of r products, T = sum_i T_i with T_i = lambda_i c_i o p_i of channels and a
plane. In reconet it is the attention A, which re-weights the map X. In reconet_plus it is the
context Y, which joins X. The fusing convolution is linear in the ranks of both:

    pre-activation = W_x X + W_t core(T) + W_p pooled = rest + sum_i W_t core(T_i)

with core(T) = A * X or Y. So switching off rank i needs neither the backbone nor the reduction
again. The rest is computed once. Only the norm, the ReLU and the classifier, which are not linear
in the ranks, are computed again. Switched off means lambda_i = 0, with the other lambdas as they
were.

Dimensions: b batch, c channels of X, h rows, w columns, r rank, k classes, i, j places of logits.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.errors import RecipeError
from reconet.models.context.low_rank import (
    Factors,
    LowRankCore,
    LowRankHead,
    reconstruct,
)
from reconet.models.segmenter import Segmenter


@dataclass(frozen=True, kw_only=True, eq=False)
class Decomposition:
    """One pass through a network, kept at the fusing convolution, and the layers that follow it."""

    core: LowRankCore
    factors: Factors
    gather_brhw: Tensor | None  # where each rank looked, in contexts whose ranks choose that
    x_bchw: Tensor
    rest_bchw: Tensor  # the pre-activation of the fusing convolution without any rank
    fuse_cc: Tensor  # W_t: its weights for the result of the core
    norm: nn.Module
    classify: Callable[[Tensor], Tensor]  # of the map: classifier, and decoder if there is one

    @property
    def rank(self) -> int:
        return len(self.factors.weight_r)

    def tensor(self) -> Tensor:
        """Compute the whole tensor_bchw: A of reconet, Y of reconet_plus."""
        return reconstruct(self.factors)

    def sub_tensor(self, rank: int) -> Tensor:
        """Compute T_i = lambda_i c_i o p_i, tensor_bchw. Over all ranks they sum to T."""
        return reconstruct(self._only(rank))

    def heat(self, rank: int) -> Tensor:
        """Compute the mean over channels of what a rank adds, heat_hw, of the first image.

        That is A_i * X, or Y_i.
        """
        if not self.core.multiplies:
            return self.tensor_heat(rank)
        weight_r, channel_brc, plane_brhw = self._only(rank)
        heat_hw = torch.einsum("c,chw->hw", weight_r * channel_brc[0, 0], self.x_bchw[0])
        return heat_hw * plane_brhw[0, 0] / self.x_bchw.shape[1]

    def tensor_heat(self, rank: int) -> Tensor:
        """Compute the mean over channels of T_i alone, heat_hw, of the first image."""
        weight_r, channel_brc, plane_brhw = self._only(rank)
        return weight_r * channel_brc[0, 0].mean() * plane_brhw[0, 0]

    def gathered(self, rank: int) -> Tensor | None:
        """Compute where a rank looked, mask_hw, of the first image; it sums to 1."""
        return None if self.gather_brhw is None else self.gather_brhw[0, rank]

    @torch.no_grad()
    def logits(self, keep_r: Tensor) -> Tensor:
        """Compute logits_bkij with only the kept ranks: booleans, or a factor for each lambda."""
        weight_r = self.factors.weight_r * keep_r.to(self.factors.weight_r)
        kept_bchw = self._fused(self.factors._replace(weight_r=weight_r))
        return self._finish(self.rest_bchw + kept_bchw)

    @torch.no_grad()
    def leave_one_out(self) -> Iterator[Tensor]:
        """Yield logits_bkij with all ranks, then without each of them in turn."""
        fused_bchw = self.rest_bchw + self._fused(self.factors)
        yield self._finish(fused_bchw)
        for rank in range(self.rank):
            yield self._finish(fused_bchw - self._fused(self._only(rank)))

    def _fused(self, factors: Factors) -> Tensor:
        """Compute W_t core(T): what some ranks add to the pre-activation."""
        result_bchw = self.core.apply_tensor(self.x_bchw, reconstruct(factors))
        return F.conv2d(result_bchw, self.fuse_cc[:, :, None, None])

    def _finish(self, fused_bchw: Tensor) -> Tensor:
        return self.classify(torch.relu(self.norm(fused_bchw)))

    def _only(self, rank: int) -> Factors:
        if not 0 <= rank < self.rank:
            raise RecipeError(f"there is no rank {rank}: they go from 0 to {self.rank - 1}.")
        weight_r, channel_brc, plane_brhw = self.factors
        one = slice(rank, rank + 1)
        return Factors(weight_r[one], channel_brc[:, one], plane_brhw[:, one])


@torch.no_grad()
def decompose(model: Segmenter, image_bchw: Tensor) -> Decomposition:
    """Run a network in eval mode up to the fusing convolution.

    The image is uint8, or float from 0 to 1, as the network takes it.
    """
    head = _low_rank_head(model)
    features = model.trunk(image_bchw)
    x_bchw = head.reduce(features.c4)
    conv, norm = head.fuse[0], head.fuse[1]
    assert isinstance(conv, nn.Conv2d)
    channels = x_bchw.shape[1]
    # The order of the convolution's input: X, the core's result, pooled X.
    weight_x, weight_t, *weight_p = conv.weight.split(channels, dim=1)
    rest_bchw = F.conv2d(x_bchw, weight_x, conv.bias)
    if head.pool is not None:
        rest_bchw = rest_bchw + F.conv2d(head.pool(x_bchw)[:, :, :1, :1], weight_p[0])
    return Decomposition(
        core=head.core,
        factors=Factors(*(factor.detach() for factor in head.core.factors(x_bchw))),
        gather_brhw=head.core.gather_masks(x_bchw),
        x_bchw=x_bchw,
        rest_bchw=rest_bchw,
        fuse_cc=weight_t[:, :, 0, 0],
        norm=norm,
        classify=lambda map_bdij: model.classify_map(map_bdij, features),
    )


def low_rank_core(model: Segmenter) -> LowRankCore:
    """Return the part of a network that has ranks, or raise an error that says it has none."""
    return _low_rank_head(model).core


def _low_rank_head(model: Segmenter) -> LowRankHead:
    head = model.context.low_rank_head()
    if head is None:
        raise RecipeError(
            f"a network with context {type(model.context).__name__} has no ranks. Those with "
            "reconet (unless tgm_trm=false) and reconet_plus have."
        )
    return head
