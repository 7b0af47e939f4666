"""The non-local block against loops."""

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from reconet.models.context.non_local import NonLocal, NonLocalBlock
from tests.models.context.helpers import SIZE, features, shuffled, stages, stir


def awake(*, scaled: bool = False, subsample: bool = False) -> NonLocalBlock:
    """Make a block with random weights. A fresh one is the identity."""
    block = NonLocalBlock(6, scaled=scaled, subsample=subsample)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.5)
    return block


@pytest.mark.parametrize("scaled", [False, True])
def test_the_block_equals_loops(scaled: bool) -> None:
    block, x_bchw = awake(scaled=scaled), torch.randn(2, 6, 3, 4)
    query, key, value = (c(x_bchw).flatten(2) for c in (block.query, block.key, block.value))
    mixed = torch.zeros(2, 3, 12)
    for b in range(2):
        for i in range(12):
            energy_n = torch.stack([(query[b, :, i] * key[b, :, j]).sum() for j in range(12)])
            weight_n = (energy_n / (3**0.5 if scaled else 1)).exp()
            for j in range(12):
                mixed[b, :, i] += weight_n[j] / weight_n.sum() * value[b, :, j]
    by_hand = x_bchw + block.out(mixed.view(2, 3, 3, 4))
    torch.testing.assert_close(block(x_bchw), by_hand)


def test_a_fresh_block_is_the_identity() -> None:
    x_bchw = torch.randn(2, 6, *SIZE)
    assert torch.equal(NonLocalBlock(6)(x_bchw), x_bchw)


def test_pixels_in_another_order_give_the_result_in_that_order() -> None:
    block, x_bchw = awake(), torch.randn(2, 6, *SIZE)
    torch.testing.assert_close(block(shuffled(x_bchw)), shuffled(block(x_bchw)))


def test_without_a_query_everybody_gets_the_mean() -> None:
    block, x_bchw = awake(), torch.randn(2, 6, *SIZE)
    nn.init.zeros_(block.query.weight)
    assert block.query.bias is not None
    nn.init.zeros_(block.query.bias)
    mean_bd11 = block.value(x_bchw).mean((2, 3), keepdim=True)
    torch.testing.assert_close(block(x_bchw), x_bchw + block.out(mean_bd11))


def test_a_subsampled_block_looks_at_maxima_of_cells() -> None:
    block, x_bchw = awake(subsample=True), torch.randn(1, 6, 3, 5)  # cells at the border are small
    key, value = block.key(x_bchw), block.value(x_bchw)
    cells = [(i, j) for i in (0, 2) for j in (0, 2, 4)]
    key_dm, value_dm = (
        torch.stack([x[0, :, i : i + 2, j : j + 2].amax((1, 2)) for i, j in cells], 1)
        for x in (key, value)
    )
    weight_nm = (block.query(x_bchw)[0].flatten(1).T @ key_dm).softmax(1)
    mixed = (weight_nm @ value_dm.T).T.view(1, 3, 3, 5)
    torch.testing.assert_close(block(x_bchw), x_bchw + block.out(mixed))


def test_concat_joins_c4_and_the_result() -> None:
    of = stages()
    net = NonLocal(of, num_classes=3, concat=True)
    stir(net)
    x = features(of)
    assert net.join is not None
    y_bchw = net.smooth(net.reduce(x.c4))  # the fresh block between is the identity
    torch.testing.assert_close(net(x).map_bdhw, net.join(torch.cat([x.c4, y_bchw], 1)))


def test_a_subsampled_block_exports_for_odd_and_even_sizes() -> None:
    block = awake(subsample=True).eval()
    sizes = {2: Dim("h", min=3), 3: Dim("w", min=3)}  # two cells: torch treats one by itself
    program = export(block, (torch.randn(1, 6, 4, 6),), dynamic_shapes=(sizes,), strict=False)
    for size in [(5, 7), (3, 4), (4, 9)]:
        x_bchw = torch.randn(1, 6, *size)
        torch.testing.assert_close(program.module()(x_bchw), block(x_bchw))
