"""Pyramid pooling (PSPNet)."""

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu, resize
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Pyramid pooling",
    paper='Zhao et al., "Pyramid Scene Parsing Network", CVPR 2017',
    idea="Means over grids of 1, 4, 9 and 36 cells join every position.",
    options={"bins": "cells along a side, one branch each", "dropout": "before the classifier"},
)


class PooledBranch(nn.Module):
    """Means over bins x bins cells, through a 1x1 convolution, back at the size of the map.

    Cells overlap where the size is not a multiple of `bins`, as in the published network.
    """

    def __init__(self, channels_in: int, channels_out: int, bins: int) -> None:
        super().__init__()
        self.bins = bins
        self.project = conv_bn_relu(channels_in, channels_out, 1, pooled=True)

    def forward(self, x_bchw: Tensor) -> Tensor:
        cells_bdij = self.project(F.adaptive_avg_pool2d(x_bchw, self.bins))
        return resize(cells_bdij, (x_bchw.shape[2], x_bchw.shape[3]))


class PSPNet(ContextModule):
    """[c4, pooled c4 at each of `bins`] -> 3x3 convolution -> dropout. No core: it works on c4."""

    info = INFO

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        bins: tuple[PositiveInt, ...] = (1, 2, 3, 6),
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels
        self.out_channels = channels // 4
        self.branches = nn.ModuleList(PooledBranch(channels, channels // 4, b) for b in bins)
        self.fuse = conv_bn_relu(channels + len(bins) * (channels // 4), self.out_channels, 3)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, features: Features) -> Context:
        c4 = features.c4
        all_bdhw = torch.cat([c4, *(branch(c4) for branch in self.branches)], dim=1)
        return Context(self.dropout(self.fuse(all_bdhw)), {})
