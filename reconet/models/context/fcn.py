"""Fully convolutional head (FCN), in the form that today's dilated backbones carry."""

from torch import nn

from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu
from reconet.recipes.schema import Fraction

INFO = ContextInfo(
    title="Fully convolutional head",
    paper='Long et al., "Fully Convolutional Networks for Semantic Segmentation", CVPR 2015',
    idea="One 3x3 convolution and no context.",
    options={"dropout": "before the classifier"},
)


class FCN(ContextModule):
    """c4 -> 3x3 convolution to a quarter of the channels -> dropout."""

    info = INFO

    def __init__(self, stages: Stages, *, num_classes: int, dropout: Fraction = 0.1) -> None:
        super().__init__(stages, num_classes=num_classes)
        self.out_channels = stages.c4.channels // 4
        self.reduce = conv_bn_relu(stages.c4.channels, self.out_channels, 3)
        self.dropout = nn.Dropout(dropout)

    def forward(self, features: Features) -> Context:
        return Context(self.dropout(self.reduce(features.c4)), {})
