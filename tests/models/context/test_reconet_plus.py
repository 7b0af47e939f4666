import pytest
import torch

from reconet.cost import module_cost
from reconet.models.context.reconet import GlobalPooling
from reconet.models.context.reconet_plus import FragmentReconstruction, SeparableMasks

both_kinds = pytest.mark.parametrize("separable", [False, True])


def lively(separable: bool, channels: int = 6, rank: int = 3) -> FragmentReconstruction:
    """Make a module whose masks are not flat."""
    core = FragmentReconstruction(channels, rank=rank, separable=separable)
    with torch.no_grad():
        for parameter in core.parameters():
            parameter.normal_()
    return core


@both_kinds
@pytest.mark.parametrize("rank", [1, 4])
def test_flat_ranks_are_global_pooling(separable: bool, rank: int) -> None:
    core, pool = FragmentReconstruction(5, rank=rank, separable=separable), GlobalPooling(5)
    with torch.no_grad():
        for parameter in core.masks.parameters():
            parameter.zero_()
        core.mix.weight.copy_(pool.conv.weight[:, :, 0, 0])
        assert pool.conv.bias is not None
        core.bias_rc.copy_(pool.conv.bias.expand(rank, -1))
    x_bchw = torch.randn(2, 5, 4, 7)
    # The first weights of the ranks make up for masks of one half.
    torch.testing.assert_close(core(x_bchw), pool(x_bchw).contiguous())


def test_masks_that_gather_start_nearly_flat() -> None:
    torch.manual_seed(0)
    core, x_bchw = FragmentReconstruction(64), torch.randn(2, 64, 5, 7)
    torch.testing.assert_close(
        core.gather_masks(x_bchw), torch.full((2, 16, 5, 7), 1 / 35), rtol=0.1, atol=0
    )


@both_kinds
def test_the_result_is_the_sum_of_its_ranks(separable: bool) -> None:
    core, x_bchw = lively(separable), torch.randn(2, 6, 4, 7)
    parts = core.factors(x_bchw)
    by_hand = torch.zeros(2, 6, 4, 7)
    for b in range(2):
        for r in range(3):
            for i in range(4):
                for j in range(7):
                    place = parts.plane_brhw[b, r, i, j]
                    by_hand[b, :, i, j] += parts.weight_r[r] * place * parts.channel_brc[b, r]
    torch.testing.assert_close(core(x_bchw), by_hand)


@both_kinds
def test_a_fragment_is_what_its_mask_gathers(separable: bool) -> None:
    core, x_bchw = lively(separable), torch.randn(2, 6, 4, 7)
    fragment_brc, gather_brhw = core.factors(x_bchw).channel_brc, core.gather_masks(x_bchw)
    torch.testing.assert_close(gather_brhw.sum((2, 3)), torch.ones(2, 3))
    for r in range(3):
        seen_bc = (gather_brhw[:, r : r + 1] * x_bchw).sum((2, 3))
        expected_bc = torch.relu(seen_bc @ core.mix.weight.T + core.bias_rc[r])
        torch.testing.assert_close(fragment_brc[:, r], expected_bc)


def test_masks_are_those_of_each_place() -> None:
    core, x_bchw = lively(separable=False), torch.randn(2, 6, 4, 7)
    layer = core.masks.get_submodule("conv")
    weight_sc = layer.get_parameter("weight")[:, :, 0, 0]
    bias_s = layer.get_parameter("bias")
    place_brhw = core.factors(x_bchw).plane_brhw
    odds_brhw = core.gather_masks(x_bchw).log()
    for i in range(4):
        for j in range(7):
            logits_bs = x_bchw[:, :, i, j] @ weight_sc.T + bias_s
            torch.testing.assert_close(place_brhw[:, :, i, j], logits_bs[:, 3:].sigmoid())
            # Softmax: logarithms differ as logits do.
            first_bs = x_bchw[:, :, 0, 0] @ weight_sc.T + bias_s
            difference_br = odds_brhw[:, :, i, j] - odds_brhw[:, :, 0, 0]
            torch.testing.assert_close(
                difference_br, (logits_bs - first_bs)[:, :3], rtol=1e-4, atol=1e-4
            )


def test_separable_masks_are_products_of_a_column_and_a_row() -> None:
    core, x_bchw = lively(separable=True), torch.randn(2, 6, 4, 7).double()
    core.double()
    for plane_brhw in (core.factors(x_bchw).plane_brhw, core.gather_masks(x_bchw)):
        assert (torch.linalg.matrix_rank(plane_brhw, rtol=1e-9) == 1).all()
    y_bchw = core(x_bchw)
    for axis in (1, 2, 3):
        assert torch.linalg.matrix_rank(y_bchw[0].movedim(axis - 1, 0).flatten(1)) <= 3


@both_kinds
def test_a_shifted_image_shifts_its_masks(separable: bool) -> None:
    core, x_bchw = lively(separable), torch.randn(1, 6, 5, 8)
    shifted_bchw = x_bchw.roll((2, 3), (2, 3))
    before, after = core.factors(x_bchw), core.factors(shifted_bchw)
    torch.testing.assert_close(after.plane_brhw, before.plane_brhw.roll((2, 3), (2, 3)))
    torch.testing.assert_close(after.channel_brc, before.channel_brc)
    torch.testing.assert_close(
        core.gather_masks(shifted_bchw), core.gather_masks(x_bchw).roll((2, 3), (2, 3))
    )


def test_rows_and_columns_are_not_mixed_up() -> None:
    core, x_bchw = lively(separable=True), torch.randn(1, 6, 5, 8)
    turned = lively(separable=True)
    turned.load_state_dict(core.state_dict())
    assert isinstance(core.masks, SeparableMasks)
    assert isinstance(turned.masks, SeparableMasks)
    turned.masks.row.load_state_dict(core.masks.column.state_dict())
    turned.masks.column.load_state_dict(core.masks.row.state_dict())
    y_bcwh = turned(x_bchw.transpose(2, 3))
    torch.testing.assert_close(y_bcwh.transpose(2, 3), core(x_bchw))


@both_kinds
def test_it_works_at_any_size_without_resampling(separable: bool) -> None:
    core = lively(separable)
    for size in ((1, 1), (3, 9), (17, 2)):
        assert core(torch.randn(2, 6, *size)).shape == (2, 6, *size)
    x_bchw = torch.randn(2, 6, 3, 5)
    larger_bchw, expected_bchw = (
        map_bchw.repeat_interleave(2, 2).repeat_interleave(3, 3)
        for map_bchw in (x_bchw, core(x_bchw))
    )
    torch.testing.assert_close(core(larger_bchw), expected_bchw)


@pytest.mark.parametrize(("separable", "products"), [(False, 4), (True, 2)])
def test_the_core_is_small(separable: bool, products: int) -> None:
    # Masks of both kinds, gathering and placing are one product of r c h w each.
    with torch.device("meta"):
        core = FragmentReconstruction(512, separable=separable).eval()
        cost = module_cost(core, torch.empty(1, 512, 64, 64))
    assert cost.params == sum(parameter.numel() for parameter in core.parameters()) < 1_000_000
    one_product = core.rank * 512 * 64 * 64
    assert products * one_product <= cost.macs < 1.15 * products * one_product
    assert cost.macs <= 300_000_000


@both_kinds
def test_a_core_with_some_of_the_ranks_is_the_sum_of_these(separable: bool) -> None:
    core, x_bchw = lively(separable, rank=4), torch.randn(2, 6, 5, 8)
    kept = (0, 2, 3)
    smaller = FragmentReconstruction(6, rank=3, separable=separable)
    smaller.load_state_dict(core.state_of_ranks(kept))
    expected_bchw = torch.zeros_like(x_bchw)
    weight_r, channel_brc, plane_brhw = core.factors(x_bchw)
    for r in kept:
        part_bchw = torch.einsum("bc,bhw->bchw", channel_brc[:, r], plane_brhw[:, r])
        expected_bchw += weight_r[r] * part_bchw
    torch.testing.assert_close(smaller(x_bchw), expected_bchw)
