"""Convolutional block attention (CBAM)."""

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import AttentionMaps, ContextInfo, ContextModule, RecordedPass
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Convolutional block attention",
    paper='Woo et al., "CBAM: Convolutional Block Attention Module", ECCV 2018',
    idea="Gates for the channels from what the image holds, then gates for the positions from "
    "their surroundings.",
    reach="channels, 7 x 7",
    options={
        "reduction": "divides the channels inside the channel gate",
        "dropout": "before the classifier",
    },
)


class CBAMBlock(nn.Module):
    """Gate the channels of a map, then the positions of the result."""

    def __init__(self, channels: int, *, reduction: int = 16) -> None:
        super().__init__()
        inner = max(1, channels // reduction)
        self.mlp = nn.Sequential(
            nn.Linear(channels, inner), nn.ReLU(inplace=True), nn.Linear(inner, channels)
        )
        self.spatial = nn.Sequential(
            nn.Conv2d(2, 1, 7, padding=3, bias=False), nn.BatchNorm2d(1, momentum=0.01)
        )

    def forward(self, x_bchw: Tensor) -> Tensor:
        x_bchw = x_bchw * self.channel_gate(x_bchw)[:, :, None, None]
        return x_bchw * self.spatial_gate(x_bchw)

    def channel_gate(self, x_bchw: Tensor) -> Tensor:
        """Compute gate_bc from mean and maximum over the image, by the same two layers."""
        # The backward pass of max is an index, that of amax a comparison of the whole map.
        mean_bc, most_bc = x_bchw.mean(dim=(2, 3)), x_bchw.flatten(2).max(dim=2).values
        gate_bc: Tensor = (self.mlp(mean_bc) + self.mlp(most_bc)).sigmoid()
        return gate_bc

    def spatial_gate(self, x_bchw: Tensor) -> Tensor:
        """Compute gate_b1hw from maximum and mean over the channels, in the authors' order."""
        most_b1hw = x_bchw.max(dim=1, keepdim=True).values
        mean_b1hw = x_bchw.mean(dim=1, keepdim=True)
        gate_b1hw: Tensor = self.spatial(torch.cat([most_b1hw, mean_b1hw], dim=1)).sigmoid()
        return gate_b1hw


class CBAM(ContextModule):
    """c4 -> X -> CBAM block -> dropout."""

    info = INFO
    core: CBAMBlock

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        reduction: PositiveInt = 16,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = self.out_channels = stages.c4.channels // 4
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.core = CBAMBlock(channels, reduction=reduction)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Features) -> Context:
        return Context(self.dropout(self.core(self.reduce(features.c4))), {})

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        x_bchw = recorded.input_of(self.core)
        channel_bc = self.core.channel_gate(x_bchw)
        spatial_b1hw = self.core.spatial_gate(x_bchw * channel_bc[:, :, None, None])
        return AttentionMaps(
            "The gates of positions and of channels, from 0 to 1.",
            maps=(("positions", spatial_b1hw[0, 0]),),
            gates=(("channels", channel_bc[0]),),
        )
