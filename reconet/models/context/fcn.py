"""Fully convolutional head (FCN), in the form that today's dilated backbones carry."""

import torch
from pydantic import PositiveInt
from torch import nn

from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Fully convolutional head",
    paper='Long et al., "Fully Convolutional Networks for Semantic Segmentation", CVPR 2015',
    idea="One 3x3 convolution and no context.",
    options={
        "convs": "3x3 convolutions in a row; one toolkit has 2",
        "concat": "join the result with c4 by another 3x3 convolution, as one toolkit does",
        "dropout": "before the classifier",
    },
)


class FCN(ContextModule):
    """c4 -> 3x3 convolutions to a quarter of the channels -> dropout."""

    info = INFO

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        convs: PositiveInt = 1,
        concat: bool = False,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = self.out_channels = stages.c4.channels // 4
        self.reduce = conv_bn_relu(stages.c4.channels, channels, 3)
        self.refine = nn.Sequential(*(conv_bn_relu(channels, channels, 3) for _ in range(1, convs)))
        self.join = conv_bn_relu(stages.c4.channels + channels, channels, 3) if concat else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Features) -> Context:
        y_bchw = self.refine(self.reduce(features.c4))
        if self.join is not None:
            y_bchw = self.join(torch.cat([features.c4, y_bchw], dim=1))
        return Context(self.dropout(y_bchw), {})
