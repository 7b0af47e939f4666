"""Atrous spatial pyramid pooling (DeepLabV3)."""

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import ImagePooling, conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Atrous spatial pyramid pooling",
    paper='Chen et al., "Rethinking Atrous Convolution for Semantic Image Segmentation", '
    "arXiv 2017",
    idea="Convolutions of several dilations, and the mean over the image, look at the same map "
    "side by side.",
    options={
        "rates": "dilations of the 3x3 convolutions; for output stride 16 take half of the default",
        "channels": "of each branch and of the result; by default an eighth of those of c4",
        "project_3x3": "join the branches by a 3x3 convolution, as one toolkit does",
        "last_3x3": "add the 3x3 convolution that most public versions have and the paper has not",
        "dropout": "before the classifier",
    },
)


class ASPP(nn.Module):
    """A map seen at several distances at once, joined by one convolution.

    The branches are one 1x1 convolution, one dilated 3x3 convolution per rate, and the mean over
    the image.
    """

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        rates: tuple[int, ...],
        *,
        separable: bool = False,
        project_3x3: bool = False,
    ) -> None:
        super().__init__()
        conv_3x3 = separable_conv if separable else conv_bn_relu
        self.branches = nn.ModuleList(
            [
                conv_bn_relu(channels_in, channels_out, 1),
                *(conv_3x3(channels_in, channels_out, 3, dilation=rate) for rate in rates),
                ImagePooling(channels_in, channels_out),
            ]
        )
        kernel = 3 if project_3x3 else 1
        self.project = conv_bn_relu(len(self.branches) * channels_out, channels_out, kernel)

    def forward(self, x_bchw: Tensor) -> Tensor:
        y_bdhw: Tensor = self.project(torch.cat([branch(x_bchw) for branch in self.branches], 1))
        return y_bdhw


def separable_conv(
    channels_in: int, channels_out: int, kernel: int, *, dilation: int = 1
) -> nn.Sequential:
    """Build a convolution within each channel and one across channels, both with norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(
            channels_in,
            channels_in,
            kernel,
            padding=dilation * (kernel // 2),
            dilation=dilation,
            groups=channels_in,
            bias=False,
        ),
        nn.BatchNorm2d(channels_in),
        nn.ReLU(inplace=True),
        *conv_bn_relu(channels_in, channels_out, 1),
    )


class DeepLabV3(ContextModule):
    """c4 -> ASPP -> dropout. No core: it works on c4."""

    info = INFO

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        rates: tuple[PositiveInt, ...] = (12, 24, 36),
        channels: PositiveInt | None = None,
        project_3x3: bool = False,
        last_3x3: bool = False,
        dropout: Fraction = 0.5,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels = self.out_channels = channels or stages.c4.channels // 8
        self.aspp = ASPP(stages.c4.channels, channels, rates, project_3x3=project_3x3)
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Sequential()
        if last_3x3:
            self.last.append(conv_bn_relu(channels, channels, 3))
            self.last.append(nn.Dropout(min(dropout, 0.1)))  # dropout=0 turns off both

    def forward(self, features: Features) -> Context:
        return Context(self.last(self.dropout(self.aspp(features.c4))), {})
