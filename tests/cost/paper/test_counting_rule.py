"""The paper's counting rule, on modules small enough to count by hand."""

import torch
from torch import nn

from reconet.cost.paper.rule import paper_cost
from reconet.models.attention import Attention, Product


def test_the_papers_rule_counts_a_layer_at_its_last_call_only() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.relu(self.relu(x)[:, :1])  # type: ignore[no-any-return]

    cost = paper_cost(Twice(), torch.empty(1, 3, 4, 5, device="meta"))
    assert (cost.flops, cost.memory_bytes) == (20, 80)


def test_a_product_layer_counts_two_for_each_multiply_add() -> None:
    left, right = torch.empty(1, 3, 5, device="meta"), torch.empty(1, 5, 7, device="meta")
    cost = paper_cost(Product(), left, right)
    assert (cost.flops, cost.memory_bytes) == (2 * 3 * 5 * 7, 4 * 3 * 7)


def test_an_attention_layer_is_two_products_and_the_map_between_them() -> None:
    query, key, value = (torch.empty(1, n, d, device="meta") for n, d in [(6, 4), (5, 4), (5, 3)])
    cost = paper_cost(Attention(), query, key, value)
    assert (cost.flops, cost.memory_bytes) == (2 * 6 * 5 * (4 + 3), 4 * 6 * (5 + 3))


def test_functions_count_only_if_asked_for() -> None:
    class Functions(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            pooled = nn.functional.adaptive_avg_pool2d(x, 2)
            return nn.functional.interpolate(pooled @ pooled, size=(4, 4))

    x = torch.empty(1, 3, 6, 8, device="meta")
    assert paper_cost(Functions(), x).flops == 0
    assert paper_cost(Functions(), x, as_layers=["pooling"]).flops == 3 * 6 * 8
    assert paper_cost(Functions(), x, as_layers=["product"]).flops == 2 * 3 * 2 * 2 * 2
    assert paper_cost(Functions(), x, as_layers=["resizing"]).flops == 3 * 4 * 4
