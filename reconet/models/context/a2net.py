"""Double attention (A^2-Net)."""

from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import (
    AttentionMaps,
    ContextInfo,
    ContextModule,
    RecordedPass,
    largest_maps,
)
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Double attention",
    paper='Chen et al., "A^2-Nets: Double Attention Networks", NeurIPS 2018',
    idea="Each of k attention maps gathers one descriptor of the image, and each position takes "
    "its own mixture of the k descriptors.",
    options={
        "features": "channels of a descriptor; by default a quarter of the channels, 128 of 512",
        "maps": "number of attention maps; by default a quarter of the channels",
        "dropout": "before the classifier",
    },
)


class DoubleAttention(nn.Module):
    """x + conv(A B^T V): A features, B maps (softmax over positions), V shares (over the maps)."""

    def __init__(self, channels: int, *, features: int, maps: int) -> None:
        super().__init__()
        self.feature = nn.Conv2d(channels, features, 1)
        self.gather = nn.Conv2d(channels, maps, 1)
        self.distribute = nn.Conv2d(channels, maps, 1)
        self.restore = nn.Conv2d(features, channels, 1)

    def forward(self, x_bchw: Tensor) -> Tensor:
        feature_bmn = self.feature(x_bchw).flatten(2)
        gather_bkn = self.gather(x_bchw).flatten(2).softmax(dim=2)
        share_bkn = self.distribute(x_bchw).flatten(2).softmax(dim=1)
        context_bmn = mix(feature_bmn, gather_bkn, share_bkn)
        y_bchw: Tensor = self.restore(context_bmn.unflatten(2, x_bchw.shape[2:]))
        return x_bchw + y_bchw


def mix(feature_bmn: Tensor, gather_bkn: Tensor, share_bkn: Tensor) -> Tensor:
    """Multiply A B^T V, descriptors first: k is far smaller than n, and no n x n tensor exists."""
    descriptor_bmk = feature_bmn @ gather_bkn.transpose(1, 2)
    return descriptor_bmk @ share_bkn


class A2Net(ContextModule):
    """c4 -> 3x3 -> double attention -> 3x3 -> dropout. The paper's block has no head around it."""

    info = INFO
    core: DoubleAttention

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        features: PositiveInt | None = None,
        maps: PositiveInt | None = None,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = stages.c4.channels // 4
        quarter = max(1, channels // 4)
        self.out_channels = channels
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.core = DoubleAttention(channels, features=features or quarter, maps=maps or quarter)
        self.refine = conv_bn_relu(channels, channels, 3)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Features) -> Context:
        return Context(self.dropout(self.refine(self.core(self.reduce(features.c4)))), {})

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps:
        x_bchw = recorded.input_of(self.core)
        gather_kn = self.core.gather(x_bchw)[0].flatten(1).softmax(1)
        share_khw = self.core.distribute(x_bchw)[0].softmax(0)
        gather_khw = gather_kn.view_as(share_khw)
        description = (
            "Where each descriptor is gathered, for the descriptors that positions take most of. "
            "A map sums to 1. Each position takes its own mixture of all descriptors."
        )
        return AttentionMaps(
            description, largest_maps("gathers", gather_khw, share_khw.mean((1, 2)))
        )
