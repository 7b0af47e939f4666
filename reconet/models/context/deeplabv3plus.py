"""Atrous spatial pyramid pooling with a decoder (DeepLabV3+)."""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import nn

from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.context.deeplabv3 import ASPP, separable_conv
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu, resize
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="ASPP with a decoder",
    paper='Chen et al., "Encoder-Decoder with Atrous Separable Convolution for Semantic Image '
    'Segmentation", ECCV 2018',
    idea="The result of DeepLabV3, enlarged, is refined together with features of the first stage.",
    stages=("c1", "c4"),
    options={
        "rates": "dilations of the 3x3 convolutions; for output stride 16 take half of the default",
        "channels": "of each branch and of the result; by default an eighth of those of c4",
        "low_channels": "of c1 beside the result; by default 3/16 of `channels`",
        "project_3x3": "join the branches by a 3x3 convolution, as one toolkit does",
        "decoder_convs": "3x3 convolutions of the decoder; the authors have 2, a public version 1",
        "separable": "split every 3x3 convolution into one within and one across channels",
        "dropout": "before the decoder",
    },
)


class DeepLabV3Plus(ContextModule):
    """[ASPP of c4 at c1's size, c1 with few channels] -> 3x3 convolutions.

    No core: its result has the size of c1.
    """

    info = INFO

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        rates: tuple[PositiveInt, ...] = (12, 24, 36),
        channels: PositiveInt | None = None,
        low_channels: PositiveInt | None = None,
        project_3x3: bool = False,
        decoder_convs: Literal[1, 2] = 2,
        separable: bool = False,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = self.out_channels = channels or stages.c4.channels // 8
        low_channels = low_channels or max(1, 3 * channels // 16)  # 48 of 256
        conv_3x3 = separable_conv if separable else conv_bn_relu
        self.aspp = ASPP(
            stages.c4.channels, channels, rates, separable=separable, project_3x3=project_3x3
        )
        self.dropout = nn.Dropout(dropout)
        self.low = conv_bn_relu(stages.c1.channels, low_channels, 1)
        self.decode = nn.Sequential(
            conv_3x3(channels + low_channels, channels, 3),
            *(conv_3x3(channels, channels, 3) for _ in range(decoder_convs - 1)),
        )

    def forward(self, features: Features) -> Context:
        low_behw = self.low(features.c1)
        deep_bdhw = resize(self.dropout(self.aspp(features.c4)), low_behw.shape[2:])
        return Context(self.decode(torch.cat([deep_bdhw, low_behw], dim=1)), {})
