"""Asymmetric non-local: Zhu et al., "Asymmetric Non-local Neural Networks for Semantic
Segmentation" (ICCV 2019).

Non-local attention in which every position asks, but only a pyramid of pooled cells answers: 110 of
them at scales 1, 3, 6 and 8, whatever the size of the map.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.models.attention import attend
from reconet.models.context.base import ContextModule
from reconet.models.features import Context, Features, Stages
from reconet.recipes.schema import Fraction

SCALES = (1, 3, 6, 8)


class PyramidAttention(nn.Module):
    """Context of `high` drawn from the pooled cells of `low`; zero at the start of training."""

    def __init__(
        self,
        low: int,
        high: int,
        width: int,
        channels_out: int,
        *,
        scales: Sequence[int | tuple[int, int]] = SCALES,
        shared: bool = False,
    ) -> None:
        """With `shared`, low and high are the same map, and queries and keys the same features."""
        super().__init__()
        self.scales = tuple(scales)
        self.query = _conv_bn(high, width, 1, nn.ReLU(inplace=True))
        self.key = None if shared else _conv_bn(low, width, 1, nn.ReLU(inplace=True))
        self.value = nn.Conv2d(low, width, 1)
        self.restore = nn.Conv2d(width, channels_out, 1)
        nn.init.zeros_(self.restore.weight)
        assert self.restore.bias is not None
        nn.init.zeros_(self.restore.bias)

    def forward(self, low_bchw: Tensor, high_bchw: Tensor) -> Tensor:
        query_bdhw = self.query(high_bchw)
        key_bdhw = query_bdhw if self.key is None else self.key(low_bchw)
        key_bdm = pyramid(key_bdhw, self.scales)
        value_bdm = pyramid(self.value(low_bchw), self.scales)
        context_bchw: Tensor = self.restore(attend(query_bdhw, key_bdm, value_bdm))
        return context_bchw


def pyramid(map_bchw: Tensor, scales: Sequence[int | tuple[int, int]]) -> Tensor:
    """The pooled cells of all scales, one after the other."""
    cells = [F.adaptive_avg_pool2d(map_bchw, scale).flatten(2) for scale in scales]
    return torch.cat(cells, dim=2)


class FusionBlock(nn.Module):
    """AFNB: [context of high from low, high] -> 1x1 convolution, BN, dropout."""

    def __init__(self, low: int, high: int, width: int, *, dropout: float) -> None:
        super().__init__()
        self.attention = PyramidAttention(low, high, width, high)
        self.fuse = _conv_bn(2 * high, high, 1, nn.Dropout2d(dropout))

    def forward(self, low_bchw: Tensor, high_bchw: Tensor) -> Tensor:
        context_bchw = self.attention(low_bchw, high_bchw)
        fused_bchw: Tensor = self.fuse(torch.cat([context_bchw, high_bchw], dim=1))
        return fused_bchw


class PyramidBlock(nn.Module):
    """APNB: [context of x from itself, x] -> 1x1 convolution, BN, ReLU, dropout."""

    def __init__(self, channels: int, width: int, *, dropout: float) -> None:
        super().__init__()
        self.attention = PyramidAttention(channels, channels, width, channels, shared=True)
        self.fuse = _conv_bn(
            2 * channels, channels, 1, nn.ReLU(inplace=True), nn.Dropout2d(dropout)
        )

    def forward(self, x_bchw: Tensor) -> Tensor:
        context_bchw = self.attention(x_bchw, x_bchw)
        fused_bchw: Tensor = self.fuse(torch.cat([context_bchw, x_bchw], dim=1))
        return fused_bchw


class Asymmetric(ContextModule):
    """c3, c4 -> AFNB -> 3x3 -> APNB. The dropout is inside the blocks; the core is APNB."""

    core: PyramidBlock

    def __init__(self, stages: Stages, *, num_classes: int, dropout: Fraction = 0.05) -> None:
        super().__init__(stages, num_classes=num_classes)
        low, high = stages.c3.channels, stages.c4.channels
        channels, width = high // 4, max(1, high // 8)
        self.out_channels = channels
        self.fusion = FusionBlock(low, high, width, dropout=dropout)
        self.reduce = _conv_bn(high, channels, 3, nn.ReLU(inplace=True))
        self.core = PyramidBlock(channels, width, dropout=dropout)

    def forward(self, features: Features) -> Context:
        fused_bchw = self.fusion(features.c3, features.c4)
        return Context(self.core(self.reduce(fused_bchw)), {})


def _conv_bn(channels_in: int, channels_out: int, kernel: int, *after: nn.Module) -> nn.Sequential:
    """As released, the convolution has a bias although batch norm takes it away again."""
    conv = nn.Conv2d(channels_in, channels_out, kernel, padding=kernel // 2)
    return nn.Sequential(conv, nn.BatchNorm2d(channels_out), *after)
