"""RecoNet's mathematics and that of RecoNet+, against slow and obvious versions.

Maps are not square: square ones hide swapped axes.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from reconet.errors import RecipeError
from reconet.models.context.low_rank import Factors, outer_planes, reconstruct
from reconet.models.context.reconet import GlobalPooling, RecoNet, TensorReconstruction
from reconet.models.context.reconet_plus import FragmentReconstruction
from reconet.models.features import Features, FeatureSpec
from reconet.models.segmenter import create_model
from tests.models.helpers import SIZE, stages


def random_factors(rank: int = 3, channels: int = 4, dtype: torch.dtype = torch.float) -> Factors:
    return Factors(
        torch.rand(rank, dtype=dtype),
        torch.rand(2, rank, channels, dtype=dtype),
        outer_planes(
            torch.rand(2, rank, SIZE[0], dtype=dtype), torch.rand(2, rank, SIZE[1], dtype=dtype)
        ),
    )


def core_of(channels: int = 8, size: tuple[int, int] = SIZE, rank: int = 3) -> TensorReconstruction:
    core = TensorReconstruction(
        FeatureSpec(channels=channels, height=size[0], width=size[1]), rank=rank
    )
    torch.nn.init.normal_(core.rank_logits_r)  # uniform weights would hide a wrong one
    return core


def slow_attention(core: TensorReconstruction, x_bchw: Tensor) -> Tensor:
    """Compute the paper's formula, rank by rank and image by image, without resampling."""
    rank = core.rank_logits_r.numel()
    weight_r = core.rank_logits_r.exp() / core.rank_logits_r.exp().sum()
    result = torch.zeros_like(x_bchw)
    for b, x_chw in enumerate(x_bchw):
        channels, height, width = x_chw.shape
        profiles = [
            x_chw.reshape(channels, -1).mean(1),
            torch.stack([x_chw[:, i, :].mean() for i in range(height)]),
            torch.stack([x_chw[:, :, j].mean() for j in range(width)]),
        ]
        for r in range(rank):
            gates = []
            for generator, profile_n in zip(
                (core.channel, core.row, core.column), profiles, strict=True
            ):
                n = generator.length
                matrix_nn = generator.linear.weight[r * n : (r + 1) * n]
                gates.append(torch.sigmoid(matrix_nn @ profile_n))
            v_c, v_h, v_w = gates
            result[b] += weight_r[r] * v_c[:, None, None] * v_h[:, None] * v_w
    return result


def test_reconstruct_equals_the_sum_of_rank_one_tensors() -> None:
    weight_r, c, h, w = torch.rand(3), torch.rand(2, 3, 4), torch.rand(2, 3, 5), torch.rand(2, 3, 7)
    by_hand = torch.zeros(2, 4, *SIZE)
    for r in range(3):
        by_hand += (
            weight_r[r] * c[:, r, :, None, None] * h[:, r, None, :, None] * w[:, r, None, None, :]
        )
    torch.testing.assert_close(reconstruct(Factors(weight_r, c, outer_planes(h, w))), by_hand)


def test_the_core_equals_the_formula_of_the_paper() -> None:
    core, x_bchw = core_of(), torch.randn(2, 8, *SIZE)
    expected = x_bchw * slow_attention(core, x_bchw)
    torch.testing.assert_close(core(x_bchw), expected)


@pytest.mark.parametrize("axis", ["channel", "row", "column"])
def test_at_the_trained_size_resampling_changes_no_bit(axis: str) -> None:
    generator = getattr(core_of(), axis)
    profile_bn = torch.randn(2, generator.length)
    direct = generator.gate(generator.linear(profile_bn)).view(2, 3, generator.length)
    assert torch.equal(generator(profile_bn), direct)


def test_gradients_are_those_of_finite_differences() -> None:
    core = core_of(channels=3, size=(2, 3), rank=2).double()
    for size in [(2, 3), (3, 2)]:  # trained size, and resampled
        x_bchw = torch.randn(1, 3, *size, dtype=torch.double, requires_grad=True)
        assert gradcheck(core, (x_bchw,))
    parameters = tuple(core.parameters())

    def of_parameters(*values: Tensor) -> Tensor:
        names = [name for name, _ in core.named_parameters()]
        state = dict(zip(names, values, strict=True))
        result: Tensor = torch.func.functional_call(core, state, (x_bchw.detach(),))
        return result

    assert gradcheck(of_parameters, parameters)


def test_global_pooling_is_the_same_everywhere_and_ignores_the_order_of_pixels() -> None:
    pool, x_bchw = GlobalPooling(8), torch.randn(2, 8, *SIZE)
    y_bchw = pool(x_bchw)
    assert torch.equal(y_bchw, y_bchw[:, :, :1, :1].expand_as(y_bchw))
    shuffled = x_bchw.flatten(2)[:, :, torch.randperm(SIZE[0] * SIZE[1])].view_as(x_bchw)
    torch.testing.assert_close(pool(shuffled), y_bchw)
    weight_cc, bias_c = pool.conv.weight[:, :, 0, 0], pool.conv.bias
    assert bias_c is not None
    expected = torch.relu(weight_cc @ x_bchw[0].mean((1, 2)) + bias_c)
    torch.testing.assert_close(y_bchw[0, :, 0, 0], expected)


def test_the_head_fuses_the_map_its_reconstruction_and_its_mean() -> None:
    context = RecoNet(stages(), num_classes=3, rank=2).eval()
    c4 = torch.randn(2, 32, *SIZE)
    x_bchw = context.reduce(c4)
    assert context.core is not None
    assert context.pool is not None
    expected = context.fuse(torch.cat([x_bchw, context.core(x_bchw), context.pool(x_bchw)], 1))
    torch.testing.assert_close(context(Features(c4, c4, c4, c4)).map_bdhw, expected)


@pytest.mark.parametrize(("tgm_trm", "gpm"), [(True, False), (False, True), (False, False)])
def test_a_component_that_is_switched_off_is_not_there(tgm_trm: bool, gpm: bool) -> None:
    context = RecoNet(stages(), num_classes=3, tgm_trm=tgm_trm, gpm=gpm)
    names = {name.split(".")[0] for name, _ in context.named_parameters()}
    assert ("core" in names) == tgm_trm
    assert ("pool" in names) == gpm
    c4 = torch.randn(1, 32, *SIZE)
    assert context(Features(c4, c4, c4, c4)).map_bdhw.shape == (1, 8, *SIZE)


def test_generators_start_as_r_separate_kaiming_layers_would() -> None:
    core = core_of(channels=256, rank=16)
    separate = torch.nn.Conv2d(256, 256, 1, bias=False)
    torch.nn.init.kaiming_normal_(separate.weight, mode="fan_out")
    ratio = core.channel.linear.weight.std() / separate.weight.std()
    assert ratio.item() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("option", ["profile_norm", "rank_weights", "shared_basis"])
def test_an_option_that_is_gone_is_explained_in_one_line(option: str) -> None:
    options: dict[str, Any] = {option: True}
    message = rf"option reconet.{option} was removed after 0\.1"
    with pytest.raises(RecipeError, match=message) as got:
        create_model("reconet", num_classes=3, **options)
    assert "\n" not in str(got.value)


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
