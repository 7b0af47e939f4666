"""One image's way through a RecoNet, kept after the backbone, to be taken apart rank by rank.

The attention is a sum of r rank-one tensors, A = sum_i A_i with A_i = lambda_i c_i o h_i o w_i, and
what the fusing convolution makes of it is linear:

    pre-activation = W_x X + W_a (A * X) + W_p pooled = rest + sum_i W_a (A_i * X)

So "what if rank i were switched off" needs neither the backbone nor the reduction again: the rest
is computed once, and only the norm, the ReLU and the classifier, which are not linear in the ranks,
are computed for every question. Switched off means lambda_i = 0, the other lambdas as they were.

Dimensions: b batch, c channels of X, h rows, w columns, r rank, k classes, i, j places of logits.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.errors import DataError, RecipeError
from reconet.models.context.reconet import Factors, RecoNet, TensorReconstruction, reconstruct
from reconet.models.segmenter import Segmenter


@dataclass(frozen=True, kw_only=True, eq=False)
class Inside:
    """What a RecoNet made of an image, up to the fusing convolution, and what follows it."""

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
        """A, attention_bchw."""
        return reconstruct(self.factors)

    def sub_attention(self, rank: int) -> Tensor:
        """A_i = lambda_i c_i o h_i o w_i, attention_bchw; over all ranks they sum to A."""
        return reconstruct(self._only(rank))

    def heat(self, rank: int) -> Tensor:
        """The mean over channels of A_i * X, heat_hw, of one image."""
        weight_r, channel_brc, row_brh, column_brw = self._only(rank)
        heat_hw = torch.einsum("c,chw->hw", weight_r * channel_brc[0, 0], self.x_bchw[0])
        return heat_hw * torch.outer(row_brh[0, 0], column_brw[0, 0]) / self.x_bchw.shape[1]

    def attention_heat(self, rank: int) -> Tensor:
        """The mean over channels of A_i alone, heat_hw, of one image."""
        weight_r, channel_brc, row_brh, column_brw = self._only(rank)
        return weight_r * channel_brc[0, 0].mean() * torch.outer(row_brh[0, 0], column_brw[0, 0])

    @torch.no_grad()
    def logits(self, keep_r: Tensor) -> Tensor:
        """logits_bkij with only the kept ranks: booleans, or a factor for each lambda."""
        return self.finish(self.rest_bchw + self.contribution(keep_r))

    @torch.no_grad()
    def contribution(self, keep_r: Tensor) -> Tensor:
        """W_a (A * X) of some ranks: what they add to the fusing convolution's pre-activation."""
        factors = self.factors
        weight_r = factors.weight_r * keep_r.to(factors.weight_r)
        return self._fused(factors._replace(weight_r=weight_r))

    @torch.no_grad()
    def part(self, rank: int) -> Tensor:
        """contribution() of one rank, without computing the others."""
        return self._fused(self._only(rank))

    @torch.no_grad()
    def finish(self, fused_bchw: Tensor) -> Tensor:
        """From the fusing convolution's pre-activation to logits_bkij."""
        logits_bkij: Tensor = self.classify(torch.relu(self.norm(fused_bchw)))
        return logits_bkij

    def one_by_one(self) -> Iterator[Tensor]:
        """logits_bkij with all ranks, then without each of them in turn."""
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
def look_inside(model: Segmenter, image_bchw: Tensor) -> Inside:
    """Take an image as far as the fusing convolution. The model is in eval mode, as for use.

    The image is uint8, or float from 0 to 1, as the network takes it.
    """
    if not isinstance(model, Segmenter):
        hint = "its network.model is one" if hasattr(model, "network") else "see docs/explain.md"
        raise RecipeError(f"look_inside takes a Segmenter, got {type(model).__name__}; {hint}.")
    shape = tuple(getattr(image_bchw, "shape", ()))
    if not isinstance(image_bchw, Tensor) or len(shape) != 4 or shape[1] != 3:
        got = f"{type(image_bchw).__name__} {shape or ''}".rstrip()
        raise DataError(f"look_inside takes an image as a tensor (1, 3, h, w), got {got}.")
    context = model.context
    core = reconstruction(model)
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
    return Inside(
        factors=core.factors(x_bchw),
        x_bchw=x_bchw,
        rest_bchw=rest_bchw,
        fuse_cc=weight_a[:, :, 0, 0],
        norm=norm,
        classify=model.classify,
    )


def reconstruction(model: Segmenter) -> TensorReconstruction:
    """The part of a network that has ranks, or an error that says why there is none."""
    core = model.context.core
    if isinstance(model.context, RecoNet) and isinstance(core, TensorReconstruction):
        return core
    name = type(model.context).__name__
    why = " without its TGM and TRM (tgm_trm=false)" if isinstance(model.context, RecoNet) else ""
    raise RecipeError(f"a network with context {name}{why} has no ranks; only reconet's has.")
