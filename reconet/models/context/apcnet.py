"""Adaptive pyramid context (APCNet)."""

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import AttentionMaps, ContextInfo, ContextModule, RecordedPass
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import ImagePooling, conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Adaptive pyramid context",
    paper='He et al., "Adaptive Pyramid Context Network for Semantic Segmentation", CVPR 2019',
    idea="At several scales, every position takes from a grid of pooled regions as much of each as "
    "it finds fitting.",
    options={
        "scales": "regions along a side, one branch each",
        "fusion": "add a 1x1 convolution to each branch",
        "dropout": "before the classifier",
    },
)


class AdaptiveContext(nn.Module):
    """ACM: every position takes from scale x scale regions as much as it finds fitting.

    The affinities are independent sigmoids and do not sum to one. They also depend on the mean
    over the image. The regions are pooled from the map before its reduction.
    """

    def __init__(self, channels_in: int, channels: int, scale: int, *, fusion: bool = True) -> None:
        super().__init__()
        self.scale = scale
        self.reduce = conv_bn_relu(channels_in, channels, 1)
        self.regions = conv_bn_relu(channels_in, channels, 1, pooled=True)
        self.whole = ImagePooling(channels, channels)
        self.affinity = nn.Conv2d(channels, scale**2, 1)
        self.residual = conv_bn_relu(channels, channels, 1)
        self.fuse = conv_bn_relu(channels, channels, 1) if fusion else nn.Identity()

    def forward(self, x_bchw: Tensor) -> Tensor:
        local_bdhw: Tensor = self.reduce(x_bchw)
        gathered_bdhw = self.gather(x_bchw, local_bdhw)
        y_bdhw: Tensor = self.fuse(F.relu(self.residual(gathered_bdhw) + local_bdhw))
        return y_bdhw

    def gather(self, x_bchw: Tensor, local_bdhw: Tensor) -> Tensor:
        """Compute sum_j affinity_j(h, w) * region_j."""
        region_bdj = self.regions(F.adaptive_avg_pool2d(x_bchw, self.scale)).flatten(2)
        affinity_bjhw = self.affinity(local_bdhw + self.whole(local_bdhw)).sigmoid()
        gathered_bdhw: Tensor = (region_bdj @ affinity_bjhw.flatten(2)).view_as(local_bdhw)
        return gathered_bdhw


class APCNet(ContextModule):
    """[c4, its ACM at each of `scales`] -> 3x3 convolution -> dropout. No core: it works on c4."""

    info = INFO

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        scales: tuple[PositiveInt, ...] = (1, 2, 3, 6),
        fusion: bool = True,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels, inner = stages.c4.channels, stages.c4.channels // 4
        self.out_channels = inner
        self.branches = nn.ModuleList(
            AdaptiveContext(channels, inner, scale, fusion=fusion) for scale in scales
        )
        self.join = conv_bn_relu(channels + len(scales) * inner, inner, 3)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, features: Features) -> Context:
        c4 = features.c4
        all_bdhw = torch.cat([c4, *(branch(c4) for branch in self.branches)], dim=1)
        return Context(self.dropout(self.join(all_bdhw)), {})

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        maps = []
        for branch in self.branches:
            assert isinstance(branch, AdaptiveContext)
            affinity_jhw = branch.affinity(recorded.input_of(branch.affinity))[0].sigmoid()
            row, column = recorded.cell_of_point(affinity_jhw.shape[1:])
            size = (branch.scale, branch.scale)
            maps.append((f"{size[0]} x {size[1]} regions", affinity_jhw[:, row, column].view(size)))
        description = "How much the marked point takes of each pooled region: gates from 0 to 1."
        return AttentionMaps(description, tuple(maps), from_point=True)
