"""Small pieces that more than one network part is made of."""

import torch.nn.functional as F
from torch import Tensor, nn


def conv_bn_relu(channels_in: int, channels_out: int, kernel: int) -> nn.Sequential:
    """Convolution that keeps the size, batch norm, ReLU."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(inplace=True),
    )


def resize(map_bchw: Tensor, size: tuple[int, int]) -> Tensor:
    """Bilinear, with pixel centres kept in place: the one convention of the whole package."""
    return F.interpolate(map_bchw, size=size, mode="bilinear", align_corners=False)


def init_conv(module: nn.Module) -> None:
    """Kaiming normal by fan-out for every convolution below `module`; biases zero."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)
