"""Non-local block: Wang et al., "Non-local Neural Networks" (CVPR 2018).

Every position adds a mean of all positions, weighted by how much they look like it (embedded
Gaussian).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.models.attention import Attention
from reconet.models.context.base import ContextModule
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu
from reconet.recipes.schema import Fraction


class NonLocalBlock(nn.Module):
    """Every position adds a mean of all positions, weighted by how much they look like it.

    `scaled` divides the products by the root of their length, as toolkits do; the paper does not.
    `subsample` lets a position look at the maxima of 2x2 cells only: a quarter of the cost.
    """

    def __init__(self, channels: int, *, scaled: bool = False, subsample: bool = False) -> None:
        super().__init__()
        inner = channels // 2
        self.subsample = subsample
        self.query = nn.Conv2d(channels, inner, 1)
        self.key = nn.Conv2d(channels, inner, 1)
        self.value = nn.Conv2d(channels, inner, 1)
        self.attend = Attention(scale=None if scaled else 1.0)
        self.out = nn.Conv2d(inner, channels, 1)
        for conv in (self.query, self.key, self.value):
            nn.init.normal_(conv.weight, std=0.01)
            nn.init.zeros_(conv.bias)  # type: ignore[arg-type]
        nn.init.zeros_(self.out.weight)  # the block begins as the identity
        nn.init.zeros_(self.out.bias)  # type: ignore[arg-type]

    def forward(self, x_bchw: Tensor) -> Tensor:
        key_bdhw, value_bdhw = self.key(x_bchw), self.value(x_bchw)
        if self.subsample:
            key_bdhw, value_bdhw = maxima(key_bdhw), maxima(value_bdhw)
        y_bnd = self.attend(
            _by_position(self.query(x_bchw)), _by_position(key_bdhw), _by_position(value_bdhw)
        )
        y_bdhw = y_bnd.transpose(1, 2).unflatten(2, x_bchw.shape[2:])
        return x_bchw + self.out(y_bdhw)  # type: ignore[no-any-return]


class NonLocal(ContextModule):
    """c4 -> X -> non-local block -> 3x3 convolution -> dropout.

    `concat` joins the result with c4 once more, by another 3x3 convolution, as one toolkit does.
    """

    core: NonLocalBlock

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        scaled: bool = False,
        subsample: bool = False,
        concat: bool = False,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = self.out_channels = stages.c4.channels // 4
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.core = NonLocalBlock(channels, scaled=scaled, subsample=subsample)
        self.smooth = conv_bn_relu(channels, channels, 3)
        self.join = conv_bn_relu(stages.c4.channels + channels, channels, 3) if concat else None
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, features: Features) -> Context:
        y_bchw = self.smooth(self.core(self.reduce(features.c4)))
        if self.join is not None:
            y_bchw = self.join(torch.cat([features.c4, y_bchw], dim=1))
        return Context(self.dropout(y_bchw), {})


def _by_position(x_bdhw: Tensor) -> Tensor:
    return x_bdhw.flatten(2).transpose(1, 2)


def maxima(x_bdhw: Tensor) -> Tensor:
    """Over 2x2 cells; at an odd border, over what is there. (ceil_mode does not export.)"""
    return F.max_pool2d(F.pad(x_bdhw, (0, 1, 0, 1), value=float("-inf")), 2)
