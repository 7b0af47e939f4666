"""Double attention, against slow versions."""

import torch
from torch import Tensor

from reconet.models.context.a2net import A2Net, DoubleAttention, mix
from tests.models.context.helpers import stages

SIZE = (3, 4)
STAGES = stages(64, SIZE)


def block() -> DoubleAttention:
    return DoubleAttention(16, features=5, maps=6)


def shares() -> tuple[Tensor, Tensor, Tensor]:
    """Return A, B (softmax over positions), V (softmax over maps)."""
    return torch.randn(2, 5, 12), torch.randn(2, 6, 12).softmax(2), torch.randn(2, 6, 12).softmax(1)


def test_the_block_equals_a_loop_over_maps_and_positions() -> None:
    module, x_bchw = block(), torch.randn(2, 16, *SIZE)
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
    expected = x_bchw + module.restore(context_bmn.view(2, 5, *SIZE))
    torch.testing.assert_close(module(x_bchw), expected)


def test_descriptors_first_equals_the_full_affinity_first() -> None:
    feature_bmn, gather_bkn, share_bkn = shares()
    affinity_bnn = gather_bkn.transpose(1, 2) @ share_bkn
    torch.testing.assert_close(mix(feature_bmn, gather_bkn, share_bkn), feature_bmn @ affinity_bnn)
    torch.testing.assert_close(affinity_bnn.sum(1), torch.ones(2, 12))  # convex combinations


def test_maps_without_a_preference_give_every_position_the_mean() -> None:
    module, x_bchw = block(), torch.randn(2, 16, *SIZE)
    torch.nn.init.zeros_(module.gather.weight)
    mean_bc11 = module.feature(x_bchw).mean(dim=(2, 3), keepdim=True)
    expected = x_bchw + module.restore(mean_bc11)
    torch.testing.assert_close(module(x_bchw), expected)


def test_a_zero_last_convolution_makes_it_the_identity() -> None:
    module, x_bchw = block(), torch.randn(2, 16, *SIZE)
    for parameter in module.restore.parameters():
        torch.nn.init.zeros_(parameter)
    assert torch.equal(module(x_bchw), x_bchw)


def test_features_and_maps_are_a_quarter_of_the_channels_unless_given() -> None:
    core = A2Net(STAGES, num_classes=3).core
    assert (core.feature.out_channels, core.gather.out_channels) == (4, 4)
    core = A2Net(STAGES, num_classes=3, features=7, maps=3).core
    assert (core.feature.out_channels, core.distribute.out_channels) == (7, 3)
