"""Criss-cross attention, against slow versions."""

import pytest
import torch
from torch import Tensor

from reconet.models.context.ccnet import CrissCrossAttention, criss_cross, cross_weights

SIZE = (4, 5)


def attention(recurrence: int, gamma: float = 0.7) -> CrissCrossAttention:
    module = CrissCrossAttention(16, recurrence=recurrence)
    torch.nn.init.constant_(module.gamma, gamma)
    return module


def slow_criss_cross(query_dhw: Tensor, key_dhw: Tensor, value_chw: Tensor) -> Tensor:
    _, height, width = query_dhw.shape
    result_chw = torch.zeros_like(value_chw)
    for y in range(height):
        for x in range(width):
            cross = {(g, x) for g in range(height)} | {(y, v) for v in range(width)}
            assert len(cross) == height + width - 1
            energy = {p: (query_dhw[:, y, x] @ key_dhw[:, p[0], p[1]]).exp() for p in cross}
            total = sum(energy.values())
            for p in cross:
                result_chw[:, y, x] += energy[p] / total * value_chw[:, p[0], p[1]]
    return result_chw


@pytest.mark.parametrize("size", [(4, 5), (1, 6), (6, 1), (1, 1)])
def test_criss_cross_equals_a_loop_over_the_cross(size: tuple[int, int]) -> None:
    query, key, value = torch.randn(2, 3, *size), torch.randn(2, 3, *size), torch.randn(2, 7, *size)
    expected = [slow_criss_cross(*maps) for maps in zip(query, key, value, strict=True)]
    torch.testing.assert_close(criss_cross(query, key, value), torch.stack(expected))


def test_each_position_attends_to_its_row_and_column_once() -> None:
    column_bhwg, row_bhwv = cross_weights(torch.randn(2, 3, *SIZE), torch.randn(2, 3, *SIZE))
    weight_bhwn = torch.cat([column_bhwg, row_bhwv], dim=3)
    assert ((weight_bhwn > 0).sum(3) == 4 + 5 - 1).all()
    torch.testing.assert_close(weight_bhwn.sum(3), torch.ones(2, *SIZE))


def test_without_a_query_it_is_the_mean_over_the_cross() -> None:
    key, value = torch.randn(1, 3, *SIZE), torch.randn(1, 7, *SIZE)
    total = value.sum(2, keepdim=True) + value.sum(3, keepdim=True) - value
    torch.testing.assert_close(criss_cross(torch.zeros_like(key), key, value), total / (4 + 5 - 1))


@pytest.mark.parametrize(("recurrence", "reached"), [(1, 4 + 5 - 1), (2, 4 * 5)])
def test_two_passes_reach_every_position(recurrence: int, reached: int) -> None:
    x_bchw = torch.randn(1, 16, *SIZE, requires_grad=True)
    attention(recurrence)(x_bchw)[0, :, 1, 2].sum().backward()
    assert x_bchw.grad is not None
    assert (x_bchw.grad.abs().sum(1) > 0).sum() == reached


@pytest.mark.parametrize("recurrence", [1, 2, 3])
def test_it_begins_as_the_identity_however_often_it_runs(recurrence: int) -> None:
    x_bchw = torch.randn(1, 16, *SIZE)
    assert torch.equal(attention(recurrence, gamma=0)(x_bchw), x_bchw)


def test_two_passes_are_one_pass_done_twice() -> None:
    once, twice, x_bchw = attention(1), attention(2), torch.randn(1, 16, *SIZE)
    twice.load_state_dict(once.state_dict())
    torch.testing.assert_close(twice(x_bchw), once(once(x_bchw)))
