"""The traced graph: pooling as matrix products, and labels of 8 bits."""

import pytest
import torch
import torch.nn.functional as F

from reconet.errors import ExportError
from reconet.export.graph import adaptive_average, trace
from tests.factories import tiny_network


@pytest.mark.parametrize("size", [(5, 7), (8, 8), (13, 3)])
@pytest.mark.parametrize("bins", [1, 2, 3, 6])
def test_pooling_as_products_is_adaptive_pooling(size: tuple[int, int], bins: int) -> None:
    x_bchw = torch.randn(2, 3, *size)
    expected = F.adaptive_avg_pool2d(x_bchw, bins)
    torch.testing.assert_close(adaptive_average(x_bchw, bins), expected)


def test_more_classes_than_a_label_can_hold_are_refused() -> None:
    names = tuple(f"class {k}" for k in range(257))
    network = tiny_network(classes=names, palette=((0, 0, 0),) * len(names))
    with pytest.raises(ExportError, match="at most 256 classes, got 257"):
        trace(network.model)
