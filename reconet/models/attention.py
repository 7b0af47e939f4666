"""Small pieces that several attention modules are made of.

Dimensions: b batch, a heads, d channels of queries and keys, c channels of values, h rows, w
columns, n = h * w positions that ask, m positions that answer.
"""

import torch.nn.functional as F
from torch import Tensor, nn


def attend(
    query_bdhw: Tensor,
    key_bdm: Tensor,
    value_bcm: Tensor,
    *,
    heads: int = 1,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """sum_m softmax_m(scale * query . key_m) value_m at every position: a map_bchw.

    `scale` is 1 / sqrt(d of one head) unless given; `dropout` acts on the weights. The weights of
    all n x m pairs need not exist at once.
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
    # Contiguous, or torch's fast kernels do not take it.
    map_band: Tensor = map_bdn.unflatten(1, (heads, -1)).transpose(2, 3).contiguous()
    return map_band


class Product(nn.Module):
    """Batched matrix product, as a layer: so that those who count layers can see it."""

    def forward(self, left_bij: Tensor, right_bjk: Tensor) -> Tensor:
        return left_bij @ right_bjk


def conv_bn(channels_in: int, channels_out: int, kernel: int) -> nn.Sequential:
    """Convolution that keeps the size, batch norm, and no activation."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(channels_out),
    )
