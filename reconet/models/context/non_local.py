"""Non-local block, in its embedded Gaussian form."""

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
from reconet.models.layers import Attention, conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Non-local block",
    paper='Wang et al., "Non-local Neural Networks", CVPR 2018',
    idea="Every position adds a mean of all positions, weighted by how much they look like it "
    "(embedded Gaussian).",
    options={
        "scaled": "divide the products by the root of their length, as toolkits do; "
        "the paper does not",
        "subsample": "look at the maxima of 2x2 cells only: a quarter of the cost",
        "norm": "normalise what the block adds, as toolkits do; the paper does not",
        "concat": "join the result with c4 by another 3x3 convolution, as one toolkit does",
        "dropout": "before the classifier",
    },
)


class NonLocalBlock(nn.Module):
    """x + conv(mean of all values, weighted by softmax(query . key)), the identity at first."""

    def __init__(
        self, channels: int, *, scaled: bool = False, subsample: bool = False, norm: bool = False
    ) -> None:
        super().__init__()
        inner = channels // 2
        self.subsample = subsample
        self.query = nn.Conv2d(channels, inner, 1)
        self.key = nn.Conv2d(channels, inner, 1)
        self.value = nn.Conv2d(channels, inner, 1)
        self.attend = Attention(scale=None if scaled else 1.0)
        self.out = nn.Conv2d(inner, channels, 1, bias=not norm)
        self.norm = nn.BatchNorm2d(channels) if norm else nn.Identity()
        for conv in (self.query, self.key, self.value):
            nn.init.normal_(conv.weight, std=0.01)
            nn.init.zeros_(conv.bias)  # type: ignore[arg-type]
        last = self.norm if norm else self.out
        nn.init.zeros_(last.weight)  # type: ignore[arg-type]
        nn.init.zeros_(last.bias)  # type: ignore[arg-type]  # the block begins as the identity

    def forward(self, x_bchw: Tensor) -> Tensor:
        key_bdhw, value_bdhw = self.key(x_bchw), self.value(x_bchw)
        if self.subsample:
            key_bdhw, value_bdhw = maxima(key_bdhw), maxima(value_bdhw)
        y_bnd = self.attend(
            _by_position(self.query(x_bchw)), _by_position(key_bdhw), _by_position(value_bdhw)
        )
        y_bdhw = y_bnd.transpose(1, 2).unflatten(2, x_bchw.shape[2:])
        return x_bchw + self.norm(self.out(y_bdhw))  # type: ignore[no-any-return]


class NonLocal(ContextModule):
    """c4 -> X -> non-local block -> 3x3 convolution -> dropout."""

    info = INFO
    core: NonLocalBlock

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        scaled: bool = False,
        subsample: bool = False,
        norm: bool = False,
        concat: bool = False,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = self.out_channels = stages.c4.channels // 4
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.core = NonLocalBlock(channels, scaled=scaled, subsample=subsample, norm=norm)
        self.smooth = conv_bn_relu(channels, channels, 3)
        self.join = conv_bn_relu(stages.c4.channels + channels, channels, 3) if concat else None
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, features: Features) -> Context:
        y_bchw = self.smooth(self.core(self.reduce(features.c4)))
        if self.join is not None:
            y_bchw = self.join(torch.cat([features.c4, y_bchw], dim=1))
        return Context(self.dropout(y_bchw), {})

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        core = self.core
        x_bchw = recorded.input_of(core)
        query_dhw, key_bdhw = core.query(x_bchw)[0], core.key(x_bchw)
        key_dhw = (maxima(key_bdhw) if core.subsample else key_bdhw)[0]
        row, column = recorded.cell_of_point(query_dhw.shape[1:])
        weight_m = point_weights(query_dhw[:, row, column], key_dhw.flatten(1), core.attend.scale)
        maps = (("where it looks", weight_m.view(key_dhw.shape[1:])),)
        description = "Where the marked point looks. Its weights sum to 1."
        return AttentionMaps(description, maps, from_point=True)


def _by_position(x_bdhw: Tensor) -> Tensor:
    return x_bdhw.flatten(2).transpose(1, 2)


def maxima(x_bdhw: Tensor) -> Tensor:
    """Pool the maxima of 2x2 cells; at an odd border, of what is there.

    Not by ceil_mode, which does not export.
    """
    return F.max_pool2d(F.pad(x_bdhw, (0, 1, 0, 1), value=float("-inf")), 2)
