"""Pieces that several networks share."""

import pytest
import torch
from torch import nn

from reconet.models.attention import Attention
from reconet.models.layers import ImagePooling, PooledBN, conv_bn_relu


def known_norm() -> PooledBN:
    norm = PooledBN(3)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
    norm.running_mean = torch.tensor([0.5, -1.0, 2.0])
    norm.running_var = torch.tensor([4.0, 1.0, 0.25])
    return norm


def test_one_value_per_channel_is_normalised_by_what_is_known() -> None:
    norm, x_bchw = known_norm(), torch.randn(1, 3, 1, 1, requires_grad=True)
    in_training = norm.train()(x_bchw)
    torch.testing.assert_close(in_training, norm.eval()(x_bchw))
    in_training.sum().backward()
    assert norm.weight.grad is not None
    assert norm.running_mean is not None
    assert norm.running_mean.tolist() == [0.5, -1.0, 2.0]
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm2d(3)(x_bchw)


@pytest.mark.parametrize("size", [(2, 1, 1), (1, 1, 2), (1, 3, 1)])
def test_two_values_per_channel_are_normalised_by_their_own(size: tuple[int, int, int]) -> None:
    x_bchw = torch.randn(size[0], 3, *size[1:])
    pooled, plain = PooledBN(3), nn.BatchNorm2d(3)
    torch.testing.assert_close(pooled(x_bchw), plain(x_bchw))
    torch.testing.assert_close(pooled.running_var, plain.running_var)


@pytest.mark.parametrize("dilation", [1, 2, 5])
def test_dilation_keeps_the_size(dilation: int) -> None:
    assert conv_bn_relu(2, 3, 3, dilation=dilation)(torch.rand(2, 2, 5, 7)).shape == (2, 3, 5, 7)


def test_image_pooling_is_the_same_everywhere_and_knows_no_order() -> None:
    pooling, x_bchw = ImagePooling(4, 6).eval(), torch.randn(2, 4, 5, 7)
    y_bdhw = pooling(x_bchw)
    torch.testing.assert_close(y_bdhw, y_bdhw[..., :1, :1].expand(2, 6, 5, 7))
    shuffled = x_bchw.flatten(2)[..., torch.randperm(35)].view_as(x_bchw)
    torch.testing.assert_close(pooling(shuffled), y_bdhw)


@pytest.mark.parametrize(("scale", "factor"), [(1.0, 1.0), (None, 6**-0.5)])
def test_attention_equals_loops(scale: float | None, factor: float) -> None:
    query, key, value = torch.randn(2, 5, 6), torch.randn(2, 4, 6), torch.randn(2, 4, 3)
    result = Attention(scale=scale)(query, key, value)
    for b in range(2):
        for i in range(5):
            energy_m = torch.stack([factor * (query[b, i] * key[b, j]).sum() for j in range(4)])
            weight_m = energy_m.exp() / energy_m.exp().sum()
            by_hand = sum(weight_m[j] * value[b, j] for j in range(4))
            torch.testing.assert_close(result[b, i], by_hand)
