"""DANet's two attentions, against slow versions."""

import torch
from torch import Tensor

from reconet.models.context.danet import ChannelAttention, DANet, PositionAttention
from reconet.models.losses import side_loss
from tests.models.context.helpers import features, stages

SIZE = (3, 4)
STAGES = stages(64, SIZE)


def position_attention() -> PositionAttention:
    module = PositionAttention(16)
    torch.nn.init.constant_(module.gamma, 0.7)
    return module


def channel_attention(*, paper_sign: bool = False) -> ChannelAttention:
    module = ChannelAttention(paper_sign=paper_sign)
    torch.nn.init.constant_(module.gamma, 0.7)
    return module


def shuffled(x_bchw: Tensor, order_n: Tensor) -> Tensor:
    return x_bchw.flatten(2)[:, :, order_n].view_as(x_bchw)


def test_position_attention_equals_a_loop_over_positions() -> None:
    module, x_bchw = position_attention(), torch.randn(2, 16, *SIZE)
    query_bdn, key_bdn, value_bcn = (
        layer(x_bchw).flatten(2) for layer in (module.query, module.key, module.value)
    )
    expected_bcn = x_bchw.flatten(2).clone()
    for b in range(2):
        for i in range(12):
            energy_n = torch.stack([query_bdn[b, :, i] @ key_bdn[b, :, j] for j in range(12)])
            expected_bcn[b, :, i] += 0.7 * (value_bcn[b] @ energy_n.softmax(0))
    torch.testing.assert_close(module(x_bchw), expected_bcn.view_as(x_bchw))


def test_channel_attention_equals_a_loop_over_channels() -> None:
    module, x_bchw = channel_attention(), torch.randn(2, 5, *SIZE)
    for x_cn, y_cn in zip(x_bchw.flatten(2), module(x_bchw).flatten(2), strict=True):
        for c in range(5):
            energy_d = torch.stack([x_cn[c] @ x_cn[d] for d in range(5)])
            weight_d = (energy_d.max() - energy_d).softmax(0)  # as the authors write it
            mixed_n = sum(weight_d[d] * x_cn[d] for d in range(5))
            torch.testing.assert_close(y_cn[c], x_cn[c] + 0.7 * mixed_n)


def test_the_papers_sign_turns_the_channel_attention_round() -> None:
    x_bcn = torch.randn(2, 5, 12)
    energy_bcd = x_bcn @ x_bcn.transpose(1, 2)
    torch.testing.assert_close(channel_attention().weights(x_bcn), (-energy_bcd).softmax(2))
    by_paper = channel_attention(paper_sign=True).weights(x_bcn)
    torch.testing.assert_close(by_paper, energy_bcd.softmax(2))


def test_orthogonal_channels_give_themselves_the_smallest_weight() -> None:
    weight_bcd = channel_attention().weights(torch.eye(6, 12).unsqueeze(0))
    assert torch.equal(weight_bcd[0].argmin(1), torch.arange(6))


def test_channel_energies_are_summed_in_full_precision_under_autocast() -> None:
    x_bcn = torch.rand(1, 4, 500)
    exact = channel_attention().weights(x_bcn)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(channel_attention().weights(x_bcn), exact)


def test_both_attentions_follow_a_permutation_of_the_positions() -> None:
    x_bchw, order_n = torch.randn(2, 16, *SIZE), torch.randperm(12)
    for module in (position_attention(), channel_attention()):
        torch.testing.assert_close(
            module(shuffled(x_bchw, order_n)), shuffled(module(x_bchw), order_n)
        )


def test_both_attentions_begin_as_the_identity_with_only_gamma_to_move() -> None:
    x_bchw = torch.randn(2, 16, *SIZE)
    for module in (PositionAttention(16), ChannelAttention()):
        y_bchw = module(x_bchw)
        assert torch.equal(y_bchw, x_bchw)
        y_bchw.square().sum().backward()
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None
            assert bool(parameter.grad.any()) == (name == "gamma")


def test_the_loss_is_the_sum_over_both_branches() -> None:
    context = DANet(STAGES, num_classes=3)
    assert context.eval()(features(STAGES)).extra == {}
    extra = context.train()(features(STAGES)).extra
    label_bhw = torch.randint(0, 3, (2, 12, 16))
    expected = side_loss(extra["position"], label_bhw) + side_loss(extra["channel"], label_bhw)
    assert torch.equal(context.loss(extra, label_bhw), expected)
    assert context.loss(extra, torch.full_like(label_bhw, 255)) == 0
