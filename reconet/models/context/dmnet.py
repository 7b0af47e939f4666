"""Dynamic multi-scale filters (DMNet)."""

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.features import Context, Features, Stages
from reconet.models.layers import conv_bn_relu
from reconet.recipes.values import Fraction

INFO = ContextInfo(
    title="Dynamic filters",
    paper='He et al., "Dynamic Multi-Scale Filters for Semantic Segmentation", ICCV 2019',
    idea="The image, pooled to a few cells, becomes the filter that it is convolved with, at "
    "several sizes of filter.",
    not_in_onnx="each image has filters of its own: a convolution of as many groups as there are "
    "images times channels, and ONNX wants that number fixed",
    options={
        "kernels": "sizes of the filters, one branch each",
        "fusion": "add a 1x1 convolution to each branch; public versions leave it out",
        "dropout": "before the classifier",
    },
)


class DynamicFilter(nn.Module):
    """DCM: convolve an image with itself pooled to kernel x kernel cells, channel by channel."""

    def __init__(
        self, channels_in: int, channels: int, kernel: int, *, fusion: bool = False
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.generate = nn.Conv2d(channels_in, channels, 1)
        self.reduce = conv_bn_relu(channels_in, channels, 1)
        self.norm = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.fuse = conv_bn_relu(channels, channels, 1) if fusion else nn.Identity()

    def forward(self, x_bchw: Tensor) -> Tensor:
        filter_bdij = self.generate(F.adaptive_avg_pool2d(x_bchw, self.kernel))
        y_bdhw = filtered(self.reduce(x_bchw), filter_bdij)
        return self.fuse(self.relu(self.norm(y_bdhw)))  # type: ignore[no-any-return]


def filtered(x_bdhw: Tensor, filter_bdij: Tensor) -> Tensor:
    """Convolve every channel of every image with a filter of its own, at the same size.

    This is one grouped convolution: each channel of each image is a group. Outside of the map is
    zero. An even filter reaches one cell farther to the top and to the left.
    """
    (batch, channels, height, width), kernel = x_bdhw.shape, filter_bdij.shape[2]
    groups = batch * channels
    y_1nhw = F.conv2d(
        x_bdhw.reshape(1, groups, height, width),
        filter_bdij.reshape(groups, 1, kernel, kernel),
        padding=kernel // 2,
        groups=groups,
    )
    return y_1nhw[:, :, :height, :width].reshape(batch, channels, height, width)


class DMNet(ContextModule):
    """[c4, c4 filtered at each of `kernels`] -> 3x3 -> dropout. No core: it works on c4."""

    info = INFO

    def __init__(
        self,
        stages: Stages,
        *,
        num_classes: int,
        kernels: tuple[PositiveInt, ...] = (1, 3, 5, 7),
        fusion: bool = False,
        dropout: Fraction = 0.1,
    ) -> None:
        super().__init__(stages, num_classes=num_classes)
        channels, inner = stages.c4.channels, stages.c4.channels // 4
        self.out_channels = inner
        self.branches = nn.ModuleList(
            DynamicFilter(channels, inner, kernel, fusion=fusion) for kernel in kernels
        )
        self.join = conv_bn_relu(channels + len(kernels) * inner, inner, 3)
        self.dropout = nn.Dropout2d(dropout)

    def forward(self, features: Features) -> Context:
        c4 = features.c4
        all_bdhw = torch.cat([c4, *(branch(c4) for branch in self.branches)], dim=1)
        return Context(self.dropout(self.join(all_bdhw)), {})
