"""PSANet's index map against the published loop."""

import pytest
import torch
from torch import Tensor, nn

from reconet.models.context.psanet import PointAttention, PSANet, by_position
from tests.models.context.helpers import features, part, stages, stir


def slow_by_position(energy_bohw: Tensor, mask: tuple[int, int]) -> Tensor:
    """Mask index (i, j) at position (p, q) belongs to the partner (p + i - half, q + j - half)."""
    batch, _, height, width = energy_bohw.shape
    (mask_h, mask_w), half = mask, [(side - 1) // 2 for side in mask]
    result = torch.zeros(batch, height * width, height * width)
    for p in range(height):
        for q in range(width):
            for i in range(mask_h):
                for j in range(mask_w):
                    s, t = p + i - half[0], q + j - half[1]
                    if 0 <= s < height and 0 <= t < width:
                        value_b = energy_bohw[:, i * mask_w + j, p, q]
                        result[:, s * width + t, p * width + q] = value_b
    return result


# Exact, larger, smaller and even masks.
@pytest.mark.parametrize("mask", [(7, 9), (11, 13), (3, 5), (1, 9), (6, 4), (2, 8)])
def test_spread_equals_the_quadruple_loop(mask: tuple[int, int]) -> None:
    energy_bohw = torch.randn(2, mask[0] * mask[1], 4, 5)
    assert torch.equal(by_position(energy_bohw, mask), slow_by_position(energy_bohw, mask))


@pytest.mark.parametrize("collect", [True, False])
def test_a_branch_collects_or_distributes_pixel_by_pixel(collect: bool) -> None:
    branch = PointAttention(8, 4, (7, 9), collect=collect)
    stir(branch)
    nn.init.normal_(part(branch, "predict.1").weight)
    c4_bchw = torch.randn(2, 8, 8, 10)
    x_bchw = nn.functional.avg_pool2d(branch.reduce(c4_bchw), 2)  # bilinear by 2 is that
    energy_bsp = slow_by_position(branch.predict(x_bchw), (7, 9))
    if not collect:
        energy_bsp = energy_bsp.mT
    by_hand = torch.zeros(2, 4, 20)
    for b in range(2):
        for target in range(20):
            weight_s = energy_bsp[b, :, target].exp()
            weight_s = weight_s / weight_s.sum()
            for source in range(20):
                by_hand[b, :, target] += weight_s[source] * x_bchw[b].flatten(1)[:, source]
    torch.testing.assert_close(branch(c4_bchw), by_hand.view(2, 4, 4, 5), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("collect", [True, False])
@pytest.mark.parametrize("size", [(8, 10), (6, 4), (13, 15)])
def test_without_preferences_everybody_gets_the_mean(collect: bool, size: tuple[int, int]) -> None:
    """Check that weights sum to one at the trained size, on smaller and on larger maps."""
    branch = PointAttention(8, 4, (7, 9), collect=collect)
    stir(branch)
    nn.init.zeros_(part(branch, "predict.1").weight)
    c4_bchw = torch.randn(2, 8, *size)
    y_bchw = branch(c4_bchw)
    assert y_bchw.shape[2:] == (-(-size[0] // 2), -(-size[1] // 2))
    torch.testing.assert_close(y_bchw, y_bchw[..., :1, :1].expand_as(y_bchw))
    constant_bchw = torch.randn(2, 8, 1, 1).expand(2, 8, *size)
    nn.init.normal_(part(branch, "predict.1").weight)  # any preferences among equals
    torch.testing.assert_close(
        branch(constant_bchw), branch.reduce(constant_bchw)[..., :1, :1].expand_as(y_bchw)
    )


def test_psanet_joins_c4_with_both_branches_at_its_own_size() -> None:
    of = stages(size=(6, 9))
    net = PSANet(of, num_classes=3)
    stir(net)
    assert net.collect.mask == (5, 9)
    x = features(of)
    both = net.expand(torch.cat([net.collect(x.c4), net.distribute(x.c4)], 1))
    larger = nn.Upsample((6, 9), mode="bilinear", align_corners=False)(both)
    torch.testing.assert_close(net(x).map_bdhw, net.fuse(torch.cat([x.c4, larger], 1)))
