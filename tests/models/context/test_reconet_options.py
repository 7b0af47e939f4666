"""The options of the attention, against slow and obvious versions; without them nothing changes."""

import pytest
import torch
from torch import Tensor

from reconet.errors import RecipeError
from reconet.models.context.reconet import FactorGenerator, TensorReconstruction, reconstruct
from reconet.models.features import FeatureSpec
from reconet.models.segmenter import create_model

SPEC = FeatureSpec(channels=32, height=5, width=7)


def standardised(profile_n: Tensor) -> Tensor:
    variance = (profile_n - profile_n.mean()).square().mean()
    return (profile_n - profile_n.mean()) / (variance + 1e-5).sqrt()


def test_the_paper_is_the_default_and_options_leave_its_weights_alone() -> None:
    plain = TensorReconstruction(SPEC, rank=3)
    for other in (
        TensorReconstruction(SPEC, rank=3, profile_norm=True),
        TensorReconstruction(SPEC, rank=3, rank_weights="sum"),
    ):
        other.load_state_dict(plain.state_dict())
    names = {"channel.linear.weight", "row.linear.weight", "column.linear.weight", "rank_logits_r"}
    assert plain.state_dict().keys() == names


def test_a_standardised_profile_gives_the_gates_of_its_slow_version() -> None:
    generator = FactorGenerator(7, 3, normalise=True)
    profile_bn = torch.rand(2, 7) + 4
    gate_brn = generator(profile_bn)
    for b in range(2):
        for r in range(3):
            matrix_nn = generator.linear.weight[7 * r : 7 * (r + 1)]
            expected_n = torch.sigmoid(matrix_nn @ standardised(profile_bn[b]))
            torch.testing.assert_close(gate_brn[b, r], expected_n, rtol=1e-4, atol=1e-4)


def test_a_standardised_profile_ignores_scale_and_offset_and_a_flat_one_opens_gates_half() -> None:
    generator = FactorGenerator(7, 3, normalise=True)
    profile_bn = torch.rand(2, 7)
    torch.testing.assert_close(
        generator(100 * profile_bn), generator(1000 * profile_bn + 5), rtol=1e-3, atol=1e-3
    )
    torch.testing.assert_close(generator(torch.full((1, 7), 3.0)), torch.full((1, 3, 7), 0.5))


def test_a_sum_over_ranks_is_r_times_the_mean() -> None:
    mean = TensorReconstruction(SPEC, rank=6)
    torch.nn.init.normal_(mean.rank_logits_r)
    total = TensorReconstruction(SPEC, rank=6, rank_weights="sum")
    total.load_state_dict(mean.state_dict())
    x_bchw = torch.randn(2, 32, 5, 7)
    torch.testing.assert_close(total(x_bchw), 6 * mean(x_bchw))


def test_a_shared_basis_gives_the_gates_of_its_slow_version_with_16_times_fewer_weights() -> None:
    core = TensorReconstruction(SPEC, rank=3, shared_basis=True)
    basis_ck = core.channel.basis
    assert basis_ck is not None
    assert basis_ck.weight.shape == (32, 2)
    profile_c = torch.rand(32)
    gate_brc = core.channel(profile_c[None])
    for r in range(3):
        mixture_k = core.channel.linear.weight[2 * r : 2 * (r + 1)] @ profile_c
        by_hand = sum(mixture_k[k] * basis_ck.weight[:, k] for k in range(2))
        assert isinstance(by_hand, Tensor)
        torch.testing.assert_close(gate_brc[0, r], by_hand.sigmoid())
    full = TensorReconstruction(SPEC, rank=3)
    assert core.channel.linear.weight.numel() * 16 == full.channel.linear.weight.numel()
    assert core.row.linear.weight.shape == full.row.linear.weight.shape


def test_gates_from_a_shared_basis_start_as_wide_as_others() -> None:
    wide = FeatureSpec(channels=256, height=4, width=4)
    profile_bc = torch.rand(8, 256)
    own = TensorReconstruction(wide, rank=8).channel(profile_bc)
    shared = TensorReconstruction(wide, rank=8, shared_basis=True).channel(profile_bc)
    assert 0.8 < (own.logit().std() / shared.logit().std()).item() < 1.25


@pytest.mark.parametrize(
    "options",
    [{"profile_norm": True}, {"rank_weights": "sum"}, {"shared_basis": True}],
    ids=lambda o: next(iter(o)),
)
def test_with_any_option_other_sizes_work_and_all_weights_learn(options: dict[str, object]) -> None:
    core = TensorReconstruction(SPEC, rank=3, **options)  # type: ignore[arg-type]
    attention_bchw = reconstruct(core.factors(torch.rand(1, 32, 9, 4)))
    assert attention_bchw.shape == (1, 32, 9, 4)
    attention_bchw.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in core.parameters())


def test_a_recipe_sets_the_options_and_a_wrong_one_is_explained() -> None:
    made = create_model(
        "reconet", num_classes=3, backbone="resnet18", width=0.125, crop=64, profile_norm=True
    )
    assert isinstance(made.context.core, TensorReconstruction)
    assert made.context.core.channel.normalise
    with pytest.raises(RecipeError, match="rank_weights"):
        create_model("reconet", num_classes=3, rank_weights="median")
