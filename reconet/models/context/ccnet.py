"""Criss-cross attention (CCNet)."""

from functools import partial

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import AttentionMaps, ContextInfo, ContextModule, RecordedPass
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn, conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Criss-cross attention",
    paper='Huang et al., "CCNet: Criss-Cross Attention for Semantic Segmentation", ICCV 2019',
    idea="Every position attends to the h + w - 1 positions of its own row and column, and after a "
    "second pass with the same weights it has heard of every other position.",
    options={
        "recurrence": "passes of the attention, with the same weights",
        "leaky": "leaky ReLU, as the authors have it; toolkits have ReLU",
        "dropout": "before the classifier",
    },
)


class CrissCrossAttention(nn.Module):
    """RCCA: x + gamma * (softmax over the own row and column) of values, `recurrence` times."""

    def __init__(self, channels: int, *, recurrence: int = 2) -> None:
        super().__init__()
        width = max(1, channels // 8)
        self.query = nn.Conv2d(channels, width, 1)
        self.key = nn.Conv2d(channels, width, 1)
        self.value = nn.Conv2d(channels, channels, 1)
        self.gamma = nn.Parameter(torch.zeros(()))
        self.recurrence = recurrence

    def forward(self, x_bchw: Tensor) -> Tensor:
        for _ in range(self.recurrence):
            context_bchw = criss_cross(self.query(x_bchw), self.key(x_bchw), self.value(x_bchw))
            x_bchw = x_bchw + self.gamma * context_bchw
        return x_bchw


def criss_cross(query_bdhw: Tensor, key_bdhw: Tensor, value_bchw: Tensor) -> Tensor:
    """Compute attention along row and column. g and v are the rows and columns that answer."""
    column_bhwg, row_bhwv = cross_weights(query_bdhw, key_bdhw)
    from_column_bwch = value_bchw.permute(0, 3, 1, 2) @ column_bhwg.permute(0, 2, 3, 1)
    from_row_bhcw = value_bchw.permute(0, 2, 1, 3) @ row_bhwv.transpose(2, 3)
    # One of them is dense, or an export asks which of two layouts the sum should have.
    return from_row_bhcw.transpose(1, 2).contiguous() + from_column_bwch.permute(0, 2, 3, 1)


def cross_weights(query_bdhw: Tensor, key_bdhw: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights for column and row, from one softmax over both.

    The position itself counts in its row only.
    """
    height = query_bdhw.shape[2]
    column_bwhg = query_bdhw.permute(0, 3, 2, 1) @ key_bdhw.permute(0, 3, 1, 2)
    row_bhwv = query_bdhw.permute(0, 2, 3, 1) @ key_bdhw.permute(0, 2, 1, 3)
    own_hg = torch.eye(height, dtype=torch.bool, device=query_bdhw.device)
    column_bhwg = column_bwhg.masked_fill(own_hg, float("-inf")).transpose(1, 2)
    weight_bhwn = torch.cat([column_bhwg, row_bhwv], dim=3).softmax(dim=3)
    return weight_bhwn[..., :height], weight_bhwn[..., height:]


class CCNet(ContextModule):
    """c4 -> 3x3, RCCA, 3x3; with c4 -> 3x3 -> dropout."""

    info = INFO
    core: CrissCrossAttention

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        recurrence: PositiveInt = 2,
        leaky: bool = True,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels // 4
        self.out_channels = channels
        conv_3x3 = _conv_bn_leaky if leaky else partial(conv_bn_relu, kernel=3)
        self.reduce = conv_3x3(stages.c4.channels, channels)
        self.core = CrissCrossAttention(channels, recurrence=recurrence)
        self.refine = conv_3x3(channels, channels)
        self.fuse = conv_3x3(stages.c4.channels + channels, channels)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, features: Features) -> Context:
        y_bchw = self.refine(self.core(self.reduce(features.c4)))
        return Context(self.dropout(self.fuse(torch.cat([features.c4, y_bchw], dim=1))), {})

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        core, maps = self.core, []
        for call in range(core.recurrence):
            x_bchw = recorded.input_of(core.query, call)
            column_bhwg, row_bhwv = cross_weights(core.query(x_bchw), core.key(x_bchw))
            row, column = recorded.cell_of_point(x_bchw.shape[2:])
            weight_hw = torch.zeros_like(x_bchw[0, 0])
            weight_hw[:, column] += column_bhwg[0, row, column]
            weight_hw[row, :] += row_bhwv[0, row, column]
            maps.append((f"pass {call + 1}", weight_hw))
        description = (
            "Where the marked point looks along its row and column, in each pass. The weights of a "
            f"pass sum to 1. The result is multiplied by gamma = {core.gamma.item():.3g}."
        )
        return AttentionMaps(description, tuple(maps), from_point=True)


def _conv_bn_leaky(channels_in: int, channels_out: int) -> nn.Sequential:
    return nn.Sequential(*conv_bn(channels_in, channels_out, 3), nn.LeakyReLU(0.01, inplace=True))
