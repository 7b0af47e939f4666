"""Asymmetric attention, against slow versions and its limits."""

import torch
from torch import Tensor

from reconet.models.context.asymmetric import SCALES, PyramidAttention, PyramidBlock, pyramid

SIZE = (5, 7)


def attention(*scales: int | tuple[int, int]) -> PyramidAttention:
    module = PyramidAttention(6, 8, 4, 8, scales=scales or SCALES).eval()
    for part in module.modules():  # a fresh norm and a zero convolution would hide mistakes
        if isinstance(part, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(part.running_mean)  # type: ignore[arg-type]
    torch.nn.init.normal_(module.restore.weight)
    return module


def maps() -> tuple[Tensor, Tensor]:
    return torch.randn(2, 6, *SIZE), torch.randn(2, 8, *SIZE)


def test_cells_are_means_over_their_rows_and_columns() -> None:
    low_bchw, _ = maps()
    cells_bcm = pyramid(low_bchw, (1, 3))
    by_hand = [low_bchw.mean(dim=(2, 3))]
    for i in range(3):
        rows = slice(i * 5 // 3, -(-(i + 1) * 5 // 3))
        for j in range(3):
            columns = slice(j * 7 // 3, -(-(j + 1) * 7 // 3))
            by_hand.append(low_bchw[:, :, rows, columns].mean(dim=(2, 3)))
    torch.testing.assert_close(cells_bcm, torch.stack(by_hand, dim=2))
    assert pyramid(low_bchw, SCALES).shape == (2, 6, 110)


def test_one_cell_gives_every_position_the_mean_value() -> None:
    module, (low_bchw, high_bchw) = attention(1), maps()
    expected = module.restore(module.value(low_bchw).mean(dim=(2, 3), keepdim=True))
    torch.testing.assert_close(module(low_bchw, high_bchw), expected.expand(2, 8, *SIZE))


def test_as_many_cells_as_positions_is_the_full_non_local_attention() -> None:
    module, (low_bchw, high_bchw) = attention(SIZE), maps()
    assert module.key is not None
    query_bdn, key_bdn = module.query(high_bchw).flatten(2), module.key(low_bchw).flatten(2)
    weight_bnn = (query_bdn.transpose(1, 2) @ key_bdn * 4**-0.5).softmax(dim=2)
    context_bdn = module.value(low_bchw).flatten(2) @ weight_bnn.transpose(1, 2)
    expected = module.restore(context_bdn.view(2, 4, *SIZE))
    torch.testing.assert_close(module(low_bchw, high_bchw), expected)


def test_pooling_commutes_with_the_value_convolution() -> None:
    module, (low_bchw, _) = attention(), maps()
    first = module.value(pyramid(low_bchw, SCALES).unsqueeze(3)).squeeze(3)
    torch.testing.assert_close(pyramid(module.value(low_bchw), SCALES), first)


def test_the_pyramid_block_has_one_projection_for_queries_and_keys() -> None:
    block = PyramidBlock(8, 4, dropout=0.05).eval()
    torch.nn.init.normal_(block.attention.restore.weight)
    assert block.attention.key is None
    apart = PyramidAttention(8, 8, 4, 8).eval()
    apart.load_state_dict(block.attention.state_dict(), strict=False)
    assert apart.key is not None
    apart.key.load_state_dict(block.attention.query.state_dict())
    x_bchw = torch.randn(2, 8, *SIZE)
    torch.testing.assert_close(block.attention(x_bchw, x_bchw), apart(x_bchw, x_bchw))


def test_the_context_begins_as_zero() -> None:
    x_bchw = torch.randn(2, 8, *SIZE)
    assert not PyramidAttention(8, 8, 4, 8)(x_bchw, x_bchw).any()
