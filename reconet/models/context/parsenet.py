"""Global pooling (ParseNet).

By default in the form that later toolkits gave it: the pooled vector passes a 1x1 convolution, norm
and ReLU.
"""

import torch
from torch import Tensor, nn

from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import ImagePooling, conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Global pooling",
    paper='Liu et al., "ParseNet: Looking Wider to See Better", ICLR workshop 2016',
    idea="Every position gets the mean over the image beside its own features.",
    options={
        "l2norm": "the original form: no convolution, both parts scaled to one length instead",
        "dropout": "before the classifier",
    },
)


class L2Norm(nn.Module):
    """Give every position a channel vector of length one, times a learned scale per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        # The components of a unit vector are small; the authors advise a start of 10 to 20.
        self.scale_c = nn.Parameter(torch.full((channels,), 10.0))

    def forward(self, x_bchw: Tensor) -> Tensor:
        x = x_bchw.float()  # a sum of squares wants more digits than bf16 has
        unit_bchw = x * (x.square().sum(dim=1, keepdim=True) + 1e-10).rsqrt()
        return (unit_bchw * self.scale_c[:, None, None]).to(x_bchw.dtype)


class ParseNet(ContextModule):
    """c4 -> X; [X, pooled X] -> dropout. No core: its result has more channels."""

    info = INFO

    def __init__(
        self, stages: Stages, *, num_classes: int, l2norm: bool = False, dropout: Fraction = 0.1
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels // 4
        self.out_channels = 2 * channels
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.local = L2Norm(channels) if l2norm else nn.Identity()
        self.pool = L2Pooling(channels) if l2norm else ImagePooling(channels, channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Features) -> Context:
        x_bchw = self.reduce(features.c4)
        both_bdhw = torch.cat([self.local(x_bchw), self.pool(x_bchw)], dim=1)
        return Context(self.dropout(both_bdhw), {})


class L2Pooling(nn.Module):
    """The mean over the image, scaled to one length, at every position."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = L2Norm(channels)

    def forward(self, x_bchw: Tensor) -> Tensor:
        pooled_bc11: Tensor = self.norm(x_bchw.mean(dim=(2, 3), keepdim=True))
        return pooled_bc11.expand_as(x_bchw)
