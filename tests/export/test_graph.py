"""The traced graph: pooling as matrix products, and labels of 8 bits."""

import pytest
import torch
import torch.nn.functional as F

from reconet.export.graph import adaptive_average


@pytest.mark.parametrize("size", [(5, 7), (8, 8), (13, 3)])
@pytest.mark.parametrize("bins", [1, 2, 3, 6])
def test_pooling_as_products_is_adaptive_pooling(size: tuple[int, int], bins: int) -> None:
    x_bchw = torch.randn(2, 3, *size)
    expected = F.adaptive_avg_pool2d(x_bchw, bins)
    torch.testing.assert_close(adaptive_average(x_bchw, bins), expected)
