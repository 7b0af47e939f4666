"""SE and CBAM as attention tensors, and as special cases of RecoNet's reconstruction."""

import torch
from torch import Tensor

from reconet.models.context.cbam import CBAMBlock
from reconet.models.context.low_rank import Factors, reconstruct
from reconet.models.context.senet import SEBlock
from tests.models.context.helpers import SIZE, part, shuffled, stir


def attention(block: SEBlock | CBAMBlock, x_bchw: Tensor) -> Tensor:
    result: Tensor = block(x_bchw) / x_bchw
    return result


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


def test_cbams_attention_has_rank_one_between_channels_and_positions() -> None:
    block, x_bchw = CBAMBlock(32).double(), torch.rand(2, 32, *SIZE).double() + 0.1
    stir(block)
    for attention_chw in attention(block, x_bchw):
        assert torch.linalg.matrix_rank(attention_chw.flatten(1), rtol=1e-9) == 1
        assert torch.linalg.matrix_rank(attention_chw[0], rtol=1e-9) > 1


def test_cbam_with_a_separable_position_gate_is_a_reconstruction_of_rank_one() -> None:
    block, x_bchw = CBAMBlock(32), torch.randn(2, 32, *SIZE)
    row_bh, column_bw = torch.rand(2, SIZE[0]), torch.rand(2, SIZE[1])
    gate_bc = block.channel_gate(x_bchw)
    plane_b1hw = (row_bh[:, :, None] * column_bw[:, None, :]).unsqueeze(1)
    factors = Factors(torch.ones(1), gate_bc.unsqueeze(1), plane_b1hw)
    torch.testing.assert_close(gate_bc[:, :, None, None] * plane_b1hw, reconstruct(factors))
