"""Asymmetric non-local attention."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.models.context.base import (
    AttentionMaps,
    ContextInfo,
    ContextModule,
    RecordedPass,
    point_weights,
)
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import attend
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Asymmetric non-local",
    paper='Zhu et al., "Asymmetric Non-local Neural Networks for Semantic Segmentation", ICCV 2019',
    idea="Non-local attention in which every position asks, but only a pyramid of pooled cells "
    "answers: 110 of them at scales 1, 3, 6 and 8, whatever the size of the map.",
    stages=("c3", "c4"),
    options={"dropout": "inside both blocks"},
)

SCALES = (1, 3, 6, 8)


class PyramidAttention(nn.Module):
    """Attention of `high` over the pooled cells of `low`. It starts training at zero."""

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
        # `shared`: low and high are the same map, and queries and keys the same features.
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
    """Join the pooled cells of all scales, one after the other: cells_bcm."""
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
    """c3, c4 -> AFNB -> 3x3 -> APNB. The core is APNB."""

    info = INFO
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

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        part = self.core.attention
        query_bdhw = part.query(recorded.input_of(part))
        row, column = recorded.cell_of_point(query_bdhw.shape[2:])
        key_dm = pyramid(query_bdhw, part.scales)[0]  # of the core, queries and keys are the same
        weight_m = point_weights(query_bdhw[0, :, row, column], key_dm)
        sizes = [(s, s) if isinstance(s, int) else s for s in part.scales]
        pieces = weight_m.split([height * width for height, width in sizes])
        maps = tuple(
            (f"{size[0]} x {size[1]} cells", piece_n.view(size))
            for size, piece_n in zip(sizes, pieces, strict=True)
        )
        description = "Where the marked point looks among the pooled cells. All weights sum to 1."
        return AttentionMaps(description, maps, from_point=True)


def _conv_bn(channels_in: int, channels_out: int, kernel: int, *after: nn.Module) -> nn.Sequential:
    # As released, the convolution has a bias although batch norm cancels it.
    conv = nn.Conv2d(channels_in, channels_out, kernel, padding=kernel // 2)
    return nn.Sequential(conv, nn.BatchNorm2d(channels_out), *after)
