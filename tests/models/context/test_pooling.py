"""ParseNet and PSPNet against slow and obvious versions."""

import math

import pytest
import torch
from torch import nn

from reconet.models.context.parsenet import L2Norm, ParseNet
from reconet.models.context.pspnet import PooledBranch, PSPNet
from tests.models.context.helpers import SIZE, features, part, shuffled, stages, stir


@pytest.mark.parametrize("l2norm", [False, True])
def test_half_of_parsenet_is_constant_and_knows_no_order(l2norm: bool) -> None:
    of = stages()
    net = ParseNet(of, num_classes=3, l2norm=l2norm)
    stir(net)
    x_bchw = net.reduce(features(of).c4)
    pooled_bchw = net.pool(x_bchw)
    assert pooled_bchw.shape == (2, 8, *SIZE)
    torch.testing.assert_close(pooled_bchw, pooled_bchw[..., :1, :1].expand(2, 8, *SIZE))
    torch.testing.assert_close(net.pool(shuffled(x_bchw)), pooled_bchw)


def test_parsenet_concatenates_the_map_and_its_mean() -> None:
    of = stages()
    net = ParseNet(of, num_classes=3)
    stir(net)
    x = features(of)
    local_bchw = net.reduce(x.c4)
    mean_bc11 = local_bchw.flatten(2).mean(2)[:, :, None, None]
    pooled_bchw = part(net, "pool.project")(mean_bc11).expand_as(local_bchw)
    torch.testing.assert_close(net(x).map_bdhw, torch.cat([local_bchw, pooled_bchw], 1))


def test_l2norm_gives_every_position_length_one_before_its_scale() -> None:
    norm, x_bchw = L2Norm(8), torch.randn(2, 8, *SIZE)
    nn.init.uniform_(norm.scale_c, 1, 20)
    y_bchw = norm(x_bchw)
    length_bhw = (y_bchw / norm.scale_c[:, None, None]).square().sum(1).sqrt()
    torch.testing.assert_close(length_bhw, torch.ones(2, *SIZE))
    torch.testing.assert_close(norm(3 * x_bchw), y_bchw)  # only the direction counts
    assert norm(torch.zeros(1, 8, 1, 1)).isfinite().all()


def test_the_original_parsenet_trains_on_one_image() -> None:
    of = stages()
    net = ParseNet(of, num_classes=3, l2norm=True)
    net(features(of, batch=1)).map_bdhw.sum().backward()
    assert all(p.grad is not None for p in net.parameters())


@pytest.mark.parametrize(("size", "bins"), [((7, 10), 3), ((5, 7), 6), ((1, 4), 2)])
def test_a_pooled_cell_is_the_mean_over_its_rows_and_columns(
    size: tuple[int, int], bins: int
) -> None:
    branch = PooledBranch(4, 6, bins)
    stir(branch)
    x_bchw = torch.randn(2, 4, *size)
    cell_bcij = torch.empty(2, 4, bins, bins)
    for i in range(bins):
        top, bottom = math.floor(i * size[0] / bins), math.ceil((i + 1) * size[0] / bins)
        for j in range(bins):
            left, right = math.floor(j * size[1] / bins), math.ceil((j + 1) * size[1] / bins)
            cell_bcij[:, :, i, j] = x_bchw[:, :, top:bottom, left:right].mean((2, 3))
    by_hand = nn.Upsample(size, mode="bilinear", align_corners=False)(branch.project(cell_bcij))
    torch.testing.assert_close(branch(x_bchw), by_hand)


def test_one_bin_is_a_constant_map_of_the_projected_mean() -> None:
    branch = PooledBranch(4, 6, 1)
    stir(branch)
    x_bchw = torch.randn(2, 4, *SIZE)
    mean_bc11 = x_bchw.flatten(2).mean(2)[:, :, None, None]
    torch.testing.assert_close(branch(x_bchw), branch.project(mean_bc11).expand(2, 6, *SIZE))


def test_a_constant_map_is_constant_at_every_level_of_the_pyramid() -> None:
    net = PSPNet(stages(), num_classes=3)
    stir(net)
    x_bchw = torch.randn(2, 32, 1, 1).expand(2, 32, *SIZE)
    for branch in net.branches:
        y_bdhw = branch(x_bchw)
        torch.testing.assert_close(y_bdhw, y_bdhw[..., :1, :1].expand(2, 8, *SIZE))


def test_pspnet_joins_c4_first_then_rising_bins() -> None:
    of = stages()
    net = PSPNet(of, num_classes=3, bins=(1, 3))
    stir(net)
    x = features(of)
    joined_bdhw = torch.cat([x.c4, net.branches[0](x.c4), net.branches[1](x.c4)], 1)
    torch.testing.assert_close(net(x).map_bdhw, net.fuse(joined_bdhw))
