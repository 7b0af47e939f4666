"""Take the attention of a RecoNet apart, rank by rank, for one pass of the network.

The attention is a sum of r rank-one tensors, A = sum_i A_i with A_i = lambda_i c_i o h_i o w_i. The
fusing convolution is linear in them:

    pre-activation = W_x X + W_a (A * X) + W_p pooled = rest + sum_i W_a (A_i * X)

So switching off rank i needs neither the backbone nor the reduction again. The rest is computed
once. Only the norm, the ReLU and the classifier, which are not linear in the ranks, are computed
again. Switched off means lambda_i = 0, with the other lambdas as they were.

Dimensions: b batch, c channels of X, h rows, w columns, r rank, k classes, i, j places of logits.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.errors import RecipeError
from reconet.models.context.reconet import Factors, RecoNet, TensorReconstruction, reconstruct
from reconet.models.segmenter import Segmenter


@dataclass(frozen=True, kw_only=True, eq=False)
class Decomposition:
    """One pass through a RecoNet, kept at the fusing convolution, and the layers that follow it."""

    factors: Factors
    x_bchw: Tensor
    rest_bchw: Tensor  # the pre-activation of the fusing convolution without any rank
    fuse_cc: Tensor  # W_a: its weights for A * X
    norm: nn.Module
    classify: nn.Module

    @property
    def rank(self) -> int:
        return len(self.factors.weight_r)

    def attention(self) -> Tensor:
        """Compute A, attention_bchw."""
        return reconstruct(self.factors)

    def sub_attention(self, rank: int) -> Tensor:
        """Compute A_i = lambda_i c_i o h_i o w_i, attention_bchw. Over all ranks they sum to A."""
        return reconstruct(self._only(rank))

    def heat(self, rank: int) -> Tensor:
        """Compute the mean over channels of A_i * X, heat_hw, of the first image."""
        weight_r, channel_brc, row_brh, column_brw = self._only(rank)
        heat_hw = torch.einsum("c,chw->hw", weight_r * channel_brc[0, 0], self.x_bchw[0])
        return heat_hw * torch.outer(row_brh[0, 0], column_brw[0, 0]) / self.x_bchw.shape[1]

    def attention_heat(self, rank: int) -> Tensor:
        """Compute the mean over channels of A_i alone, heat_hw, of the first image."""
        weight_r, channel_brc, row_brh, column_brw = self._only(rank)
        return weight_r * channel_brc[0, 0].mean() * torch.outer(row_brh[0, 0], column_brw[0, 0])

    @torch.no_grad()
    def logits(self, keep_r: Tensor) -> Tensor:
        """Compute logits_bkij with only the kept ranks: booleans, or a factor for each lambda."""
        return self.finish(self.rest_bchw + self.contribution(keep_r))

    @torch.no_grad()
    def contribution(self, keep_r: Tensor) -> Tensor:
        """Compute W_a (A * X) of some ranks: what they add to the pre-activation."""
        factors = self.factors
        weight_r = factors.weight_r * keep_r.to(factors.weight_r)
        return self._fused(factors._replace(weight_r=weight_r))

    @torch.no_grad()
    def part(self, rank: int) -> Tensor:
        """Compute contribution() of one rank, without the others."""
        return self._fused(self._only(rank))

    @torch.no_grad()
    def finish(self, fused_bchw: Tensor) -> Tensor:
        """Compute logits_bkij from the pre-activation of the fusing convolution."""
        logits_bkij: Tensor = self.classify(torch.relu(self.norm(fused_bchw)))
        return logits_bkij

    def leave_one_out(self) -> Iterator[Tensor]:
        """Yield logits_bkij with all ranks, then without each of them in turn."""
        every_r = torch.ones(self.rank, device=self.x_bchw.device)
        fused_bchw = self.rest_bchw + self.contribution(every_r)
        yield self.finish(fused_bchw)
        for rank in range(self.rank):
            yield self.finish(fused_bchw - self.part(rank))

    def _fused(self, factors: Factors) -> Tensor:
        weighted_bchw = self.x_bchw * reconstruct(factors)
        return F.conv2d(weighted_bchw, self.fuse_cc[:, :, None, None])

    def _only(self, rank: int) -> Factors:
        if not 0 <= rank < self.rank:
            raise RecipeError(f"there is no rank {rank}: they go from 0 to {self.rank - 1}.")
        weight_r, channel_brc, row_brh, column_brw = self.factors
        one = slice(rank, rank + 1)
        return Factors(weight_r[one], channel_brc[:, one], row_brh[:, one], column_brw[:, one])


@torch.no_grad()
def decompose(model: Segmenter, image_bchw: Tensor) -> Decomposition:
    """Run a network in eval mode up to the fusing convolution.

    The image is uint8, or float from 0 to 1, as the network takes it.
    """
    core, context = reconstruction(model), model.context
    assert isinstance(context, RecoNet)
    x_bchw = context.reduce(model.backbone(model.normalise(image_bchw)).c4)
    conv, norm = context.fuse[0], context.fuse[1]
    assert isinstance(conv, nn.Conv2d)
    channels = x_bchw.shape[1]
    # The order of RecoNet.forward: X, A * X, pooled X.
    weight_x, weight_a, *weight_p = conv.weight.split(channels, dim=1)
    rest_bchw = F.conv2d(x_bchw, weight_x, conv.bias)
    if context.pool is not None:
        rest_bchw = rest_bchw + F.conv2d(context.pool(x_bchw)[:, :, :1, :1], weight_p[0])
    return Decomposition(
        factors=core.factors(x_bchw),
        x_bchw=x_bchw,
        rest_bchw=rest_bchw,
        fuse_cc=weight_a[:, :, 0, 0],
        norm=norm,
        classify=model.classify,
    )


def reconstruction(model: Segmenter) -> TensorReconstruction:
    """Return the part of a network that has ranks, or raise an error that says why it has none."""
    core = model.context.core
    if isinstance(model.context, RecoNet) and isinstance(core, TensorReconstruction):
        return core
    name = type(model.context).__name__
    why = " without its TGM and TRM (tgm_trm=false)" if isinstance(model.context, RecoNet) else ""
    raise RecipeError(f"a network with context {name}{why} has no ranks; only reconet's has.")
