"""Attention between positions and channels, against slow versions."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, export

from reconet.models.context.a2net import DoubleAttention
from reconet.models.context.ccnet import CrissCrossAttention
from reconet.models.context.cfnet import HEADS, CFNet, CoOccurrence
from reconet.models.context.danet import ChannelAttention
from reconet.models.context.non_local import NonLocalBlock
from reconet.models.layers import attend, full_precision
from tests.models.helpers import SIZE, features, stages

SMALL = (3, 4)
STAGES = stages(64, SMALL)


def slow_attention(query_dn: Tensor, key_dm: Tensor, value_cm: Tensor, scale: float) -> Tensor:
    """Compute attention position by position, with one head."""
    columns = []
    for query_d in query_dn.T:
        weight_m = (scale * (key_dm.T @ query_d)).exp()
        columns.append(value_cm @ (weight_m / weight_m.sum()))
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("scale", [None, 1.0])
def test_attend_equals_a_loop_over_positions_and_heads(heads: int, scale: float | None) -> None:
    query_bdhw, key_bdm, value_bcm = (
        torch.randn(2, 4, 3, 5),
        torch.randn(2, 4, 6),
        torch.randn(2, 8, 6),
    )
    slow_scale = (4 / heads) ** -0.5 if scale is None else scale
    result_bchw = attend(query_bdhw, key_bdm, value_bcm, heads=heads, scale=scale)
    for b in range(2):
        for head, part_chw in enumerate(result_bchw[b].chunk(heads)):
            expected_cn = slow_attention(
                query_bdhw[b].flatten(1).chunk(heads)[head],
                key_bdm[b].chunk(heads)[head],
                value_bcm[b].chunk(heads)[head],
                slow_scale,
            )
            torch.testing.assert_close(part_chw, expected_cn.view_as(part_chw))


def test_products_keep_full_precision_under_autocast() -> None:
    x = torch.rand(4, 1000)
    with torch.autocast("cpu", torch.bfloat16), full_precision(x):
        assert (x @ x.T).dtype == torch.float32
    with full_precision(torch.empty(1, device="meta")):
        pass


def channel_attention(*, paper_sign: bool = False) -> ChannelAttention:
    module = ChannelAttention(paper_sign=paper_sign)
    torch.nn.init.constant_(module.gamma, 0.7)
    return module


def test_the_papers_sign_turns_the_channel_attention_round() -> None:
    x_bcn = torch.randn(2, 5, 12)
    energy_bcd = x_bcn @ x_bcn.transpose(1, 2)
    torch.testing.assert_close(channel_attention().weights(x_bcn), (-energy_bcd).softmax(2))
    by_paper = channel_attention(paper_sign=True).weights(x_bcn)
    torch.testing.assert_close(by_paper, energy_bcd.softmax(2))


def awake(*, scaled: bool = False, subsample: bool = False) -> NonLocalBlock:
    """Make a block with random weights. A fresh one is the identity."""
    block = NonLocalBlock(6, scaled=scaled, subsample=subsample)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.5)
    return block


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


def test_a_subsampled_block_exports_for_odd_and_even_sizes() -> None:
    block = awake(subsample=True).eval()
    sizes = {2: Dim("h", min=3), 3: Dim("w", min=3)}  # two cells: torch treats one by itself
    program = export(block, (torch.randn(1, 6, 4, 6),), dynamic_shapes=(sizes,), strict=False)
    for size in [(5, 7), (3, 4), (4, 9)]:
        x_bchw = torch.randn(1, 6, *size)
        torch.testing.assert_close(program.module()(x_bchw), block(x_bchw))


def criss_cross_attention(recurrence: int, gamma: float = 0.7) -> CrissCrossAttention:
    module = CrissCrossAttention(16, recurrence=recurrence)
    torch.nn.init.constant_(module.gamma, gamma)
    return module


@pytest.mark.parametrize(("recurrence", "reached"), [(1, 4 + 5 - 1), (2, 4 * 5)])
def test_two_passes_reach_every_position(recurrence: int, reached: int) -> None:
    x_bchw = torch.randn(1, 16, 4, 5, requires_grad=True)
    criss_cross_attention(recurrence)(x_bchw)[0, :, 1, 2].sum().backward()
    assert x_bchw.grad is not None
    assert (x_bchw.grad.abs().sum(1) > 0).sum() == reached


def double_attention() -> DoubleAttention:
    return DoubleAttention(16, features=5, maps=6)


def test_the_block_equals_a_loop_over_maps_and_positions() -> None:
    module, x_bchw = double_attention(), torch.randn(2, 16, *SMALL)
    feature_bmn, gather_bkn, spread_bkn = (
        layer(x_bchw).flatten(2) for layer in (module.feature, module.gather, module.distribute)
    )
    context_bmn = torch.zeros(2, 5, 12)
    for b in range(2):
        descriptors = [
            sum(gather_bkn[b, k].softmax(0)[n] * feature_bmn[b, :, n] for n in range(12))
            for k in range(6)
        ]
        for n in range(12):
            share_k = spread_bkn[b, :, n].softmax(0)
            context_bmn[b, :, n] = sum(share_k[k] * descriptors[k] for k in range(6))
    expected = x_bchw + module.restore(context_bmn.view(2, 5, *SMALL))
    torch.testing.assert_close(module(x_bchw), expected)


def acf(mixtures: int = 1) -> CoOccurrence:
    module = CoOccurrence(16, mixtures=mixtures).eval()
    torch.nn.init.normal_(module.query_key.weight)  # attention far from uniform
    return module


def pooled(x_bchw: Tensor) -> Tensor:
    """Mean over those of the 3 x 3 cells around every second position that are inside."""
    return torch.stack(
        [
            x_bchw[:, :, max(0, y - 1) : y + 2, max(0, x - 1) : x + 2].mean(dim=(2, 3))
            for y in range(0, SIZE[0], 2)
            for x in range(0, SIZE[1], 2)
        ],
        dim=2,
    )


def slow_context(module: CoOccurrence, x_bchw: Tensor) -> Tensor:
    """Compute the attention head by head, with every attention map written down."""
    pooled_bcm1 = pooled(x_bchw).unsqueeze(3)
    query = module.query_key(x_bchw).flatten(2).chunk(HEADS, dim=1)
    key = module.query_key(pooled_bcm1).flatten(2).chunk(HEADS, dim=1)
    value = module.value(pooled_bcm1).flatten(2).chunk(HEADS, dim=1)
    heads = [
        value[a] @ slow_weights(module, query[a], key[a]).transpose(1, 2) for a in range(HEADS)
    ]
    context_bchw: Tensor = torch.cat(heads, dim=1).unflatten(2, SIZE)
    return context_bchw


def slow_weights(module: CoOccurrence, query_bdn: Tensor, key_bdm: Tensor) -> Tensor:
    """Compute the attention map of one head, mixture by mixture."""
    share_b = torch.ones(2, 1)
    if module.mixtures > 1:
        share_b = (query_bdn.mean(2) @ module.mixture_md.T).softmax(dim=1)
    total_bnm = torch.zeros(2, query_bdn.shape[2], key_bdm.shape[2])
    for index in range(module.mixtures):
        query, key = (x.chunk(module.mixtures, dim=1)[index] for x in (query_bdn, key_bdm))
        weight_bnm = (query.transpose(1, 2) @ key / query_bdn.shape[1] ** 0.5).softmax(dim=2)
        total_bnm += share_b[:, index, None, None] * weight_bnm
    torch.testing.assert_close(total_bnm.sum(2), torch.ones(2, query_bdn.shape[2]))
    return total_bnm


def test_the_attention_equals_a_loop_over_heads() -> None:
    module, x_bchw = acf(), torch.randn(2, 16, *SIZE)
    expected = x_bchw + module.restore(slow_context(module, x_bchw))
    torch.testing.assert_close(module(x_bchw), expected)


def test_mixtures_are_weighted_sums_of_attention_maps() -> None:
    module, x_bchw = acf(mixtures=3), torch.randn(2, 16, *SIZE)
    expected = x_bchw + module.restore(slow_context(module, x_bchw))
    torch.testing.assert_close(module(x_bchw), expected)
    weight_bam = module.mixture_weights(module.query_key(x_bchw))
    torch.testing.assert_close(weight_bam.sum(2), torch.ones(2, HEADS))


def test_the_loss_on_present_classes_is_off_unless_asked_for() -> None:
    label_bhw = torch.randint(0, 3, (2, 12, 16))
    plain = CFNet(STAGES, num_classes=3)
    output = plain(features(STAGES))
    assert output.extra == {}
    assert plain.loss(output.extra, label_bhw) == 0
    context = CFNet(STAGES, num_classes=3, se_weight=0.5, lateral=True, mixtures=2)
    extra = context(features(STAGES)).extra
    present = [set(label_hw.flatten().tolist()) for label_hw in label_bhw]
    present_bk = torch.tensor([[float(k in classes) for k in range(3)] for classes in present])
    expected = 0.5 * F.binary_cross_entropy_with_logits(extra["presence_bk"], present_bk)
    torch.testing.assert_close(context.loss(extra, label_bhw), expected)
    assert context.eval()(features(STAGES)).extra == {}
