"""Layers that several parts of a network share."""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PooledBN(nn.BatchNorm2d):
    """Batch norm for pooled maps, which also trains on one value per channel.

    One image pooled to one cell has no variance, and torch refuses it. The running statistics are
    used instead and not updated. With N processes of one image each there are N values, and
    engine/sync_batchnorm.py makes this an ordinary synchronised norm.
    """

    def forward(self, x_bchw: Tensor) -> Tensor:
        if not self.training or x_bchw.numel() > x_bchw.shape[1]:
            return super().forward(x_bchw)
        return F.batch_norm(
            x_bchw, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


def conv_bn_relu(
    channels_in: int, channels_out: int, kernel: int, *, dilation: int = 1, pooled: bool = False
) -> nn.Sequential:
    """Build a convolution that keeps the size, with batch norm and ReLU.

    `pooled` allows maps of one cell.
    """
    padding = dilation * (kernel // 2)
    norm = PooledBN if pooled else nn.BatchNorm2d
    return nn.Sequential(
        nn.Conv2d(
            channels_in, channels_out, kernel, padding=padding, dilation=dilation, bias=False
        ),
        norm(channels_out),
        nn.ReLU(inplace=True),
    )


def conv_bn(channels_in: int, channels_out: int, kernel: int) -> nn.Sequential:
    """Build a convolution that keeps the size, with batch norm and no activation."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(channels_out),
    )


class ImagePooling(nn.Module):
    """The mean over the image, through 1x1 convolution, norm and ReLU, at every position."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.project = conv_bn_relu(channels_in, channels_out, 1, pooled=True)

    def forward(self, x_bchw: Tensor) -> Tensor:
        pooled_bd11: Tensor = self.project(x_bchw.mean(dim=(2, 3), keepdim=True))
        return pooled_bd11.expand(-1, -1, *x_bchw.shape[2:])


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Turn autocast off, for sums that need more digits than bf16 has.

    Inputs still have to be made float. Without autocast this does nothing, so that neither exports
    nor meta tensors see it.
    """
    kind = x.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def resize(map_bchw: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize bilinearly with pixel centres kept in place, as everywhere in this package."""
    return F.interpolate(map_bchw, size=size, mode="bilinear", align_corners=False)


def init_conv(module: nn.Module) -> None:
    """Initialise every convolution of `module`: Kaiming normal by fan-out, biases zero."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)
