"""Parts of attention that several contexts share.

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
