"""Layers that several parts of a network share, attention among them.

Dimensions: b batch, a heads, d channels of queries and keys, c channels of values, h rows, w
columns, n = h * w positions that ask, m positions that answer. In a projection d are components.
"""

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


def attend(
    query_bdhw: Tensor,
    key_bdm: Tensor,
    value_bcm: Tensor,
    *,
    heads: int = 1,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Compute sum_m softmax_m(scale * query . key_m) value_m at every position: map_bchw.

    `scale` is 1 / sqrt(d of one head) unless given. `dropout` acts on the weights. Without it, and
    if values are as wide as queries, the weights of all n x m pairs need not exist at once.
    """
    result_banc = F.scaled_dot_product_attention(
        _by_head(query_bdhw.flatten(2), heads),
        _by_head(key_bdm, heads),
        _by_head(value_bcm, heads),
        dropout_p=dropout,
        scale=scale,
    )
    map_bchw: Tensor = result_banc.transpose(2, 3).flatten(1, 2).unflatten(2, query_bdhw.shape[2:])
    return map_bchw


def _by_head(map_bdn: Tensor, heads: int) -> Tensor:
    # Torch's fast kernels only take contiguous tensors.
    map_band: Tensor = map_bdn.unflatten(1, (heads, -1)).transpose(2, 3).contiguous()
    return map_band


class Attention(nn.Module):
    """softmax(scale * query . key) . value, of n queries and m keys, by torch's fused kernels.

    It is a module, so that its cost can be counted like that of a layer.
    """

    def __init__(self, *, scale: float | None = None) -> None:
        super().__init__()
        self.scale = scale  # None: one over the root of the length of a query

    def forward(self, query_bnd: Tensor, key_bmd: Tensor, value_bme: Tensor) -> Tensor:
        # Torch's kernels without an n x m map want four dimensions (one head) and dense rows.
        query, key, value = (x.unsqueeze(1).contiguous() for x in (query_bnd, key_bmd, value_bme))
        return F.scaled_dot_product_attention(query, key, value, scale=self.scale).squeeze(1)


class Product(nn.Module):
    """A batched matrix product. It is a module, so that its cost can be counted."""

    def forward(self, left_bij: Tensor, right_bjk: Tensor) -> Tensor:
        return left_bij @ right_bjk


def principal_components(sample_nc: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return weight_dc and bias_d that centre features and turn them onto their main directions.

    Each direction has the sign that makes its largest weight positive, so that the same sample
    gives the same projection.
    """
    sample_nc = sample_nc.double()
    mean_c = sample_nc.mean(0)
    centred_nc = sample_nc - mean_c
    covariance_cc = centred_nc.T @ centred_nc / len(sample_nc)
    _, direction_cd = torch.linalg.eigh(covariance_cc)  # ascending
    weight_dc = direction_cd.flip(1)[:, :count].T
    largest_d1 = weight_dc.gather(1, weight_dc.abs().argmax(1, keepdim=True))
    weight_dc = weight_dc * largest_d1.sign()
    return weight_dc.float(), -(weight_dc @ mean_c).float()


def set_projection(layer: nn.Conv2d, sample_nc: Tensor) -> None:
    """Fit a 1x1 convolution to a sample of the features that it will read.

    Most of the variance of a backbone's last stage lies in a few hundred directions. After the
    projection every layer that reads the stage is several times cheaper.
    """
    weight_dc, bias_d = principal_components(sample_nc, layer.out_channels)
    with torch.no_grad():
        layer.weight.copy_(weight_dc[:, :, None, None])
        assert layer.bias is not None
        layer.bias.copy_(bias_d)
