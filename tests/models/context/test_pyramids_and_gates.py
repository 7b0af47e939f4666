"""Pyramids, decoders and gates, against slow and obvious versions."""

import torch
from torch import nn

from reconet.models.context.cbam import CBAMBlock
from reconet.models.context.low_rank import Factors, reconstruct
from reconet.models.context.parsenet import L2Norm, ParseNet
from reconet.models.context.senet import SEBlock
from tests.models.helpers import SIZE, features, part, shuffled, stages, stir


def test_parsenet_concatenates_the_map_and_its_mean() -> None:
    of = stages()
    net = ParseNet(of, num_classes=3)
    stir(net)
    x = features(of)
    local_bchw = net.reduce(x.c4)
    mean_bc11 = local_bchw.flatten(2).mean(2)[:, :, None, None]
    pooled_bchw = part(net, "pool.project")(mean_bc11).expand_as(local_bchw)
    torch.testing.assert_close(net(x).map_bdhw, torch.cat([local_bchw, pooled_bchw], 1))


def test_l2norm_gives_every_position_length_one_before_its_scale() -> None:
    norm, x_bchw = L2Norm(8), torch.randn(2, 8, *SIZE)
    nn.init.uniform_(norm.scale_c, 1, 20)
    y_bchw = norm(x_bchw)
    length_bhw = (y_bchw / norm.scale_c[:, None, None]).square().sum(1).sqrt()
    torch.testing.assert_close(length_bhw, torch.ones(2, *SIZE))
    torch.testing.assert_close(norm(3 * x_bchw), y_bchw)  # only the direction counts
    assert norm(torch.zeros(1, 8, 1, 1)).isfinite().all()


def test_the_se_gate_is_two_layers_on_the_mean() -> None:
    block, x_bchw = SEBlock(32), torch.randn(2, 32, *SIZE)
    first, second = part(block, "mlp.0"), part(block, "mlp.2")
    assert first.weight.shape == (2, 32)
    for b, x_chw in enumerate(x_bchw):
        mean_c = torch.stack([x_hw.mean() for x_hw in x_chw])
        hidden = (first.weight @ mean_c + first.bias).clamp(min=0)
        gate_c = 1 / (1 + (-(second.weight @ hidden + second.bias)).exp())
        torch.testing.assert_close(block(x_bchw)[b], x_chw * gate_c[:, None, None])
    torch.testing.assert_close(block(shuffled(x_bchw)), shuffled(block(x_bchw)))


def test_se_is_a_reconstruction_of_rank_one_with_rows_and_columns_of_one() -> None:
    block, x_bchw = SEBlock(32), torch.rand(2, 32, *SIZE) + 0.1
    factors = Factors(
        torch.ones(1),
        block.gate(x_bchw).unsqueeze(1),
        torch.ones(2, 1, *SIZE),
    )
    assert torch.equal(block(x_bchw), x_bchw * reconstruct(factors))


def test_cbam_gates_channels_and_then_positions() -> None:
    block, x_bchw = CBAMBlock(32), torch.randn(2, 32, *SIZE)
    stir(block)
    mean_bc, most_bc = x_bchw.flatten(2).mean(2), x_bchw.flatten(2).max(2).values
    gate_bc = (block.mlp(mean_bc) + block.mlp(most_bc)).sigmoid()
    gated_bchw = x_bchw * gate_bc[:, :, None, None]
    summary_b2hw = torch.stack([gated_bchw.max(1).values, gated_bchw.mean(1)], 1)
    gate_b1hw = block.spatial(summary_b2hw).sigmoid()
    torch.testing.assert_close(block(x_bchw), gated_bchw * gate_b1hw)
    swapped = x_bchw * block.spatial_gate(x_bchw)
    swapped = swapped * block.channel_gate(swapped)[:, :, None, None]
    assert not torch.allclose(block(x_bchw), swapped)
