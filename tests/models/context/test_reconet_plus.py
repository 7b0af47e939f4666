import torch

from reconet.cost import module_cost
from reconet.models.context.low_rank import Factors
from reconet.models.context.reconet import GlobalPooling
from reconet.models.context.reconet_plus import FragmentReconstruction


def lively(channels: int = 6, rank: int = 3) -> FragmentReconstruction:
    """Make a module whose masks are not flat."""
    core = FragmentReconstruction(channels, rank=rank)
    with torch.no_grad():
        for parameter in core.parameters():
            parameter.normal_()
    return core


def test_one_flat_rank_is_global_pooling() -> None:
    core, pool = FragmentReconstruction(5, rank=1), GlobalPooling(5)
    with torch.no_grad():
        for masks in (core.row_masks, core.column_masks):
            masks.weight.zero_()
            masks.bias.zero_()
        core.mix.weight.copy_(pool.conv.weight[:, :, 0, 0])
        assert pool.conv.bias is not None
        core.bias_rc.copy_(pool.conv.bias[None])
        # A flat sigmoid is one half on each axis; the rank's weight of 4 makes up for both.
        assert core.weight_r.tolist() == [4.0]
    x_bchw = torch.randn(2, 5, 4, 7)
    torch.testing.assert_close(core(x_bchw), pool(x_bchw).contiguous())


def test_the_result_is_the_sum_of_rank_one_tensors() -> None:
    core, x_bchw = lively(), torch.randn(2, 6, 4, 7)
    parts = core.factors(x_bchw)
    by_hand = torch.zeros(2, 6, 4, 7)
    for r in range(3):
        plane_bhw = parts.row_brh[:, r, :, None] * parts.column_brw[:, r, None, :]
        fragment_bc11 = parts.channel_brc[:, r, :, None, None]
        by_hand += parts.weight_r[r] * fragment_bc11 * plane_bhw[:, None]
    torch.testing.assert_close(core(x_bchw), by_hand)


def test_a_fragment_is_what_its_masks_gather() -> None:
    core, x_bchw = lively(), torch.randn(2, 6, 4, 7)
    fragment_brc, gather = core.factors(x_bchw).channel_brc, core.gather_masks(x_bchw)
    for r in range(3):
        mask_bhw = gather.row_brh[:, r, :, None] * gather.column_brw[:, r, None, :]
        torch.testing.assert_close(mask_bhw.sum((1, 2)), torch.ones(2))
        seen_bc = (mask_bhw[:, None] * x_bchw).sum((2, 3))
        expected_bc = torch.relu(seen_bc @ core.mix.weight.T + core.bias_rc[r])
        torch.testing.assert_close(fragment_brc[:, r], expected_bc)


def test_a_shifted_image_shifts_its_masks() -> None:
    core, x_bchw = lively(), torch.randn(1, 6, 5, 8)
    shifted_bchw = x_bchw.roll((2, 3), (2, 3))
    for masks in (core.factors, core.gather_masks):
        before, after = masks(x_bchw), masks(shifted_bchw)
        torch.testing.assert_close(after.row_brh, before.row_brh.roll(2, 2))
        torch.testing.assert_close(after.column_brw, before.column_brw.roll(3, 2))
        if isinstance(before, Factors) and isinstance(after, Factors):
            torch.testing.assert_close(after.channel_brc, before.channel_brc)


def test_rows_and_columns_are_not_mixed_up() -> None:
    core, x_bchw = lively(), torch.randn(1, 6, 5, 8)
    turned = lively()
    turned.load_state_dict(core.state_dict())
    turned.row_masks.load_state_dict(core.column_masks.state_dict())
    turned.column_masks.load_state_dict(core.row_masks.state_dict())
    y_bcwh = turned(x_bchw.transpose(2, 3))
    torch.testing.assert_close(y_bcwh.transpose(2, 3), core(x_bchw))


def test_it_works_at_any_size_without_resampling() -> None:
    core = lively()
    for size in ((1, 1), (3, 9), (17, 2)):
        assert core(torch.randn(2, 6, *size)).shape == (2, 6, *size)


def test_the_core_is_small() -> None:
    with torch.device("meta"):
        core = FragmentReconstruction(512).eval()
        cost = module_cost(core, torch.empty(1, 512, 64, 64))
    assert cost.params == sum(parameter.numel() for parameter in core.parameters()) < 1_000_000
    # Gathering and placing are one product of r c h w each. The rest is small.
    products = 2 * core.rank * 512 * 64 * 64
    assert products <= cost.macs < 1.15 * products
    assert cost.macs <= 300_000_000


def test_a_core_with_some_of_the_ranks_is_the_sum_of_these() -> None:
    core, x_bchw = lively(rank=4), torch.randn(2, 6, 5, 8)
    kept = (0, 2, 3)
    smaller = FragmentReconstruction(6, rank=3)
    smaller.load_state_dict(core.state_of_ranks(kept))
    expected_bchw = torch.zeros_like(x_bchw)
    weight_r, *factors = core.factors(x_bchw)
    for r in kept:
        one = [factor_brn[:, r] for factor_brn in factors]
        expected_bchw += weight_r[r] * torch.einsum("bc,bh,bw->bchw", *one)
    torch.testing.assert_close(smaller(x_bchw), expected_bchw)
