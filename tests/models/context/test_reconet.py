"""RecoNet's mathematics, against slow and obvious versions.

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
from reconet.models.features import Features, FeatureSpec, Stages
from reconet.models.segmenter import create_model

SIZE = (5, 7)


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


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_no_unfolding_has_a_rank_above_r(axis: int) -> None:
    attention_bchw = reconstruct(random_factors(rank=2, dtype=torch.double))
    for attention_chw in attention_bchw:
        unfolded = attention_chw.movedim(axis - 1, 0).flatten(1)
        assert torch.linalg.matrix_rank(unfolded) == 2


def test_the_core_equals_the_formula_of_the_paper() -> None:
    core, x_bchw = core_of(), torch.randn(2, 8, *SIZE)
    expected = x_bchw * slow_attention(core, x_bchw)
    torch.testing.assert_close(core(x_bchw), expected)


def profile(factors: Factors, axis: str) -> Tensor:
    """Return the factors along one axis, up to a number for each rank."""
    line_brn = factors.plane_brhw.sum(3 if axis == "row" else 2)
    return line_brn / line_brn.sum(2, keepdim=True)


@pytest.mark.parametrize("size", [(5, 7), (6, 6)])
def test_rows_do_not_react_to_columns(size: tuple[int, int]) -> None:
    core = core_of(size=size)
    flat, striped = torch.ones(1, 8, *size), torch.ones(1, 8, *size)
    striped[..., 0] += 0.5
    striped[..., 1] -= 0.5  # two column means move; row means and channel means do not
    before, after = core.factors(flat), core.factors(striped)
    torch.testing.assert_close(profile(after, "row"), profile(before, "row"))
    torch.testing.assert_close(after.channel_brc, before.channel_brc)
    assert not torch.allclose(profile(after, "column"), profile(before, "column"))


@pytest.mark.parametrize("size", [(5, 7), (6, 6)])
def test_columns_do_not_react_to_rows(size: tuple[int, int]) -> None:
    core = core_of(size=size)
    flat, striped = torch.ones(1, 8, *size), torch.ones(1, 8, *size)
    striped[..., 0, :] += 0.5
    striped[..., 1, :] -= 0.5
    before, after = core.factors(flat), core.factors(striped)
    torch.testing.assert_close(profile(after, "column"), profile(before, "column"))
    assert not torch.allclose(profile(after, "row"), profile(before, "row"))


def test_rank_one_with_flat_rows_and_columns_is_the_attention_of_senet() -> None:
    v_bc = torch.rand(2, 4)
    one = Factors(torch.ones(1), v_bc[:, None], torch.ones(2, 1, 5, 7))
    assert torch.equal(reconstruct(one), v_bc[:, :, None, None].expand(2, 4, 5, 7))


def test_channel_by_rank_one_space_as_in_cbam_is_one_sub_attention_map() -> None:
    v_bc, row_bh, column_bw = torch.rand(2, 4), torch.rand(2, 5), torch.rand(2, 7)
    v_bhw = row_bh[:, :, None] * column_bw[:, None, :]
    cbam_bchw = v_bc[:, :, None, None] * v_bhw[:, None]
    one = Factors(torch.ones(1), v_bc[:, None], v_bhw[:, None])
    torch.testing.assert_close(reconstruct(one), cbam_bchw)


def test_lambda_is_a_weighted_mean_that_learns_and_is_saved() -> None:
    core = core_of(rank=4)
    optimizer = torch.optim.SGD(core.parameters(), lr=1.0)
    before = core.rank_logits_r.detach().clone()
    for _ in range(2):
        weight_r = core.factors(torch.randn(1, 8, *SIZE)).weight_r
        assert ((weight_r > 0) & (weight_r < 1)).all()
        torch.testing.assert_close(weight_r.sum(), torch.tensor(1.0))
        optimizer.zero_grad()
        core(torch.randn(2, 8, *SIZE)).square().sum().backward()
        optimizer.step()
    assert not torch.equal(core.rank_logits_r, before)
    assert "rank_logits_r" in core.state_dict()


@pytest.mark.parametrize("axis", ["channel", "row", "column"])
def test_at_the_trained_size_resampling_changes_no_bit(axis: str) -> None:
    generator = getattr(core_of(), axis)
    profile_bn = torch.randn(2, generator.length)
    direct = generator.gate(generator.linear(profile_bn)).view(2, 3, generator.length)
    assert torch.equal(generator(profile_bn), direct)


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (5, 7), (9, 40), (64, 33)])
def test_other_sizes_than_the_trained_one_give_finite_gates_of_that_size(
    size: tuple[int, int],
) -> None:
    factors = core_of().factors(torch.randn(1, 8, *size))
    attention_bchw = reconstruct(factors)
    assert attention_bchw.shape == (1, 8, *size)
    assert ((attention_bchw > 0) & (attention_bchw < 1)).all()


def test_an_upsampled_map_gets_about_the_upsampled_attention() -> None:
    core = core_of(size=(16, 24))
    # Smooth, as feature maps are: then its profiles survive being doubled and halved.
    coarse = torch.randn(1, 8, 4, 6)
    x_bchw = torch.nn.functional.interpolate(coarse, size=(16, 24), mode="bilinear")
    double = torch.nn.functional.interpolate(x_bchw, scale_factor=2, mode="bilinear")
    attention = reconstruct(core.factors(x_bchw))
    expected = torch.nn.functional.interpolate(attention, scale_factor=2, mode="bilinear")
    error = (reconstruct(core.factors(double)) - expected).abs().mean() / attention.std()
    assert error < 0.05


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


def stages() -> Stages:
    one = FeatureSpec(channels=32, height=SIZE[0], width=SIZE[1])
    return Stages(one, one, one, one)


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


def test_lambda_starts_uniform() -> None:
    core = TensorReconstruction(FeatureSpec(channels=4, height=2, width=3), rank=5)
    torch.testing.assert_close(
        core.factors(torch.randn(1, 4, 2, 3)).weight_r, torch.full((5,), 0.2)
    )


def test_dropout_takes_whole_channels_with_the_probability_of_the_published_file() -> None:
    context = RecoNet(stages(), num_classes=3)
    assert isinstance(context.dropout, torch.nn.Dropout2d)
    assert context.dropout.p == 0.05
    context.dropout.p = 0.5
    c4 = torch.randn(4, 32, *SIZE)
    map_bdhw = context.train()(Features(c4, c4, c4, c4)).map_bdhw
    gone_bd = (map_bdhw == 0).flatten(2).all(2)
    assert 4 < gone_bd.sum() < 28  # of 32 channels


def test_generators_start_as_r_separate_kaiming_layers_would() -> None:
    core = core_of(channels=256, rank=16)
    separate = torch.nn.Conv2d(256, 256, 1, bias=False)
    torch.nn.init.kaiming_normal_(separate.weight, mode="fan_out")
    ratio = core.channel.linear.weight.std() / separate.weight.std()
    assert ratio.item() == pytest.approx(1.0, abs=0.02)


def test_the_core_has_the_weights_of_the_paper_and_no_others() -> None:
    names = {"channel.linear.weight", "row.linear.weight", "column.linear.weight", "rank_logits_r"}
    assert core_of().state_dict().keys() == names


@pytest.mark.parametrize("option", ["profile_norm", "rank_weights", "shared_basis"])
def test_an_option_that_is_gone_is_explained_in_one_line(option: str) -> None:
    options: dict[str, Any] = {option: True}
    message = rf"option reconet.{option} was removed after 0\.1"
    with pytest.raises(RecipeError, match=message) as got:
        create_model("reconet", num_classes=3, **options)
    assert "\n" not in str(got.value)
