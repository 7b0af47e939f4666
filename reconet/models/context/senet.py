"""Squeeze and excitation: Hu et al., "Squeeze-and-Excitation Networks" (CVPR 2018).

The mean over the image decides how much each channel counts.
"""

from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import ContextModule
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu
from reconet.recipes.schema import Fraction


class SEBlock(nn.Module):
    """Gate the channels of a map by its mean. No residual of its own."""

    def __init__(self, channels: int, *, reduction: int = 16) -> None:
        super().__init__()
        inner = max(1, channels // reduction)
        self.mlp = nn.Sequential(
            nn.Linear(channels, inner), nn.ReLU(inplace=True), nn.Linear(inner, channels)
        )

    def forward(self, x_bchw: Tensor) -> Tensor:
        return x_bchw * self.gate(x_bchw)[:, :, None, None]

    def gate(self, x_bchw: Tensor) -> Tensor:
        gate_bc: Tensor = self.mlp(x_bchw.mean(dim=(2, 3))).sigmoid()
        return gate_bc


class SENet(ContextModule):
    """c4 -> X -> SE block -> dropout."""

    core: SEBlock

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
        self.core = SEBlock(channels, reduction=reduction)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Features) -> Context:
        return Context(self.dropout(self.core(self.reduce(features.c4))), {})
