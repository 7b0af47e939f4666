"""APCNet and DMNet, whose weights come from the image, against loops."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.models.context.apcnet import AdaptiveContext, APCNet
from reconet.models.context.dmnet import DMNet, DynamicFilter, filtered
from tests.models.context.helpers import SIZE, features, stages, stir


def acm(scale: int, *, fusion: bool = True) -> AdaptiveContext:
    module = AdaptiveContext(8, 4, scale, fusion=fusion)
    stir(module)
    nn.init.normal_(module.affinity.weight)
    return module


@pytest.mark.parametrize("scale", [1, 2, 3])
@pytest.mark.parametrize("fusion", [True, False])
def test_the_acm_equals_loops(scale: int, fusion: bool) -> None:
    module, x_bchw = acm(scale, fusion=fusion), torch.randn(2, 8, 6, 7)
    local_bdhw = module.reduce(x_bchw)
    region_bdj = module.regions(nn.AdaptiveAvgPool2d(scale)(x_bchw)).flatten(2)
    whole_bd11 = module.whole.project(local_bdhw.mean((2, 3), keepdim=True))
    gathered_bdhw = torch.zeros_like(local_bdhw)
    for h in range(6):
        for w in range(7):
            at_bd11 = local_bdhw[:, :, h : h + 1, w : w + 1] + whole_bd11
            affinity_bj = module.affinity(at_bd11).flatten(1).sigmoid()
            for j in range(scale**2):
                gathered_bdhw[:, :, h, w] += affinity_bj[:, j : j + 1] * region_bdj[:, :, j]
    by_hand = module.fuse((module.residual(gathered_bdhw) + local_bdhw).relu())
    torch.testing.assert_close(module(x_bchw), by_hand, atol=1e-5, rtol=1e-4)


def test_without_affinities_everybody_gets_half_of_all_regions() -> None:
    module, x_bchw = acm(3), torch.randn(2, 8, *SIZE)
    nn.init.zeros_(module.affinity.weight)
    assert module.affinity.bias is not None
    nn.init.zeros_(module.affinity.bias)
    region_bdij = module.regions(nn.AdaptiveAvgPool2d(3)(x_bchw))
    gathered_bdhw = module.gather(x_bchw, module.reduce(x_bchw))
    half_bd11 = region_bdij.sum((2, 3), keepdim=True) / 2
    torch.testing.assert_close(gathered_bdhw, half_bd11.expand_as(gathered_bdhw))


def test_one_region_makes_an_outer_product() -> None:
    module, x_bchw = acm(1), torch.randn(2, 8, *SIZE)
    gathered_bdhw = module.gather(x_bchw, module.reduce(x_bchw))
    for gathered_dn in gathered_bdhw.double().flatten(2):
        assert torch.linalg.matrix_rank(gathered_dn, rtol=1e-5) == 1


@pytest.mark.parametrize("kind", [APCNet, DMNet])
def test_c4_comes_first_in_the_join_then_rising_branches(kind: type[APCNet | DMNet]) -> None:
    of = stages()
    net = kind(of, num_classes=3)
    stir(net)
    x = features(of)
    joined_bdhw = torch.cat([x.c4, *(net.branches[place](x.c4) for place in range(4))], 1)
    torch.testing.assert_close(net(x).map_bdhw, net.join(joined_bdhw))


def slow_filter(x_bdhw: Tensor, filter_bdij: Tensor) -> Tensor:
    """Convolve image by image and channel by channel. Even filters pad more on top and left."""
    kernel = filter_bdij.shape[2]
    before, after = kernel // 2, (kernel - 1) // 2
    y_bdhw = torch.empty_like(x_bdhw)
    for b in range(x_bdhw.shape[0]):
        for d in range(x_bdhw.shape[1]):
            padded = F.pad(x_bdhw[b, d], (before, after, before, after))
            for h in range(x_bdhw.shape[2]):
                for w in range(x_bdhw.shape[3]):
                    patch = padded[h : h + kernel, w : w + kernel]
                    y_bdhw[b, d, h, w] = (patch * filter_bdij[b, d]).sum()
    return y_bdhw


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 7])
def test_filtering_equals_loops_over_images_and_channels(kernel: int) -> None:
    x_bdhw, filter_bdij = torch.randn(2, 3, *SIZE), torch.randn(2, 3, kernel, kernel)
    by_hand = slow_filter(x_bdhw, filter_bdij)
    torch.testing.assert_close(filtered(x_bdhw, filter_bdij), by_hand, atol=1e-5, rtol=1e-4)


def test_a_filter_of_one_cell_is_a_gate() -> None:
    x_bdhw, gate_bd11 = torch.randn(2, 3, *SIZE), torch.randn(2, 3, 1, 1)
    torch.testing.assert_close(filtered(x_bdhw, gate_bd11), x_bdhw * gate_bd11)


def test_a_constant_filter_is_a_box() -> None:
    x_bdhw = torch.randn(2, 3, *SIZE)
    box_bdhw = F.avg_pool2d(x_bdhw, 3, stride=1, padding=1)  # zeros outside count as well
    torch.testing.assert_close(filtered(x_bdhw, torch.full((2, 3, 3, 3), 1 / 9)), box_bdhw)


@pytest.mark.parametrize("fusion", [True, False])
def test_the_dcm_makes_its_filter_from_the_pooled_map(fusion: bool) -> None:
    module, x_bchw = DynamicFilter(8, 4, 3, fusion=fusion), torch.randn(2, 8, *SIZE)
    stir(module)
    filter_bdij = module.generate(nn.AdaptiveAvgPool2d(3)(x_bchw))
    by_hand = module.fuse(module.norm(slow_filter(module.reduce(x_bchw), filter_bdij)).relu())
    torch.testing.assert_close(module(x_bchw), by_hand, atol=1e-5, rtol=1e-4)
