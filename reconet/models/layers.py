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


class PooledBN(nn.BatchNorm2d):
    """Batch norm for pooled maps: of one value per channel there are no statistics, so a single
    picture is normalised by the running ones.
    """

    def forward(self, x_bchw: Tensor) -> Tensor:
        if self.training and x_bchw[:, 0].numel() == 1:
            return F.batch_norm(
                x_bchw, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        return super().forward(x_bchw)
