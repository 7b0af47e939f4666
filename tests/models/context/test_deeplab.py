"""DeepLabV3 and V3+ against slow and obvious versions."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.models.context.deeplabv3 import ASPP, DeepLabV3, separable_conv
from reconet.models.context.deeplabv3plus import DeepLabV3Plus
from reconet.models.layers import conv_bn_relu
from tests.models.context.helpers import SIZE, features, part, stages, stir


def shifted(x_bchw: Tensor, down: int, right: int) -> Tensor:
    """Return x at (row + down, column + right), zero outside of the map."""
    height, width = x_bchw.shape[2:]
    y_bchw = torch.zeros_like(x_bchw)
    for i in range(height):
        for j in range(width):
            if 0 <= i + down < height and 0 <= j + right < width:
                y_bchw[:, :, i, j] = x_bchw[:, :, i + down, j + right]
    return y_bchw


@pytest.mark.parametrize("rate", [1, 2, 3])
def test_a_dilated_convolution_is_a_sum_of_nine_shifted_ones(rate: int) -> None:
    conv = part(conv_bn_relu(4, 6, 3, dilation=rate), "0")
    x_bchw = torch.randn(2, 4, *SIZE)
    by_hand = torch.zeros(2, 6, *SIZE)
    for i in range(3):
        for j in range(3):
            tap_dc11 = conv.weight[:, :, i : i + 1, j : j + 1]
            by_hand += F.conv2d(shifted(x_bchw, (i - 1) * rate, (j - 1) * rate), tap_dc11)
    torch.testing.assert_close(conv(x_bchw), by_hand, atol=1e-5, rtol=1e-4)


def test_beyond_the_map_a_dilated_convolution_is_its_centre_tap() -> None:
    conv = part(conv_bn_relu(4, 6, 3, dilation=12), "0")
    x_bchw = torch.randn(2, 4, *SIZE)
    torch.testing.assert_close(conv(x_bchw), F.conv2d(x_bchw, conv.weight[:, :, 1:2, 1:2]))


def test_aspp_is_its_five_branches_side_by_side() -> None:
    aspp = ASPP(8, 4, (2, 3, 12))
    stir(aspp)
    x_bchw = torch.randn(2, 8, *SIZE)
    near, *dilated, pool = aspp.branches
    mean_bc11 = x_bchw.flatten(2).mean(2)[:, :, None, None]
    image_bdhw = part(pool, "project")(mean_bc11).expand(2, 4, *SIZE)
    joined_bdhw = torch.cat([near(x_bchw), *(b(x_bchw) for b in dilated), image_bdhw], 1)
    assert [part(b, "0").dilation for b in dilated] == [(2, 2), (3, 3), (12, 12)]
    assert joined_bdhw.shape[1] == 20
    torch.testing.assert_close(aspp(x_bchw), aspp.project(joined_bdhw))


def test_the_last_3x3_comes_after_the_pyramid() -> None:
    of = stages(64)
    net = DeepLabV3(of, num_classes=3, last_3x3=True)
    stir(net)
    x = features(of)
    torch.testing.assert_close(net(x).map_bdhw, part(net, "last.0")(net.aspp(x.c4)))


def test_deeplabv3plus_decodes_at_the_size_of_c1() -> None:
    of = stages(64)
    net = DeepLabV3Plus(of, num_classes=3)
    stir(net)
    x = features(of)
    size = (of.c1.height, of.c1.width)
    deep_bdhw = F.interpolate(net.aspp(x.c4), size, mode="bilinear", align_corners=False)
    map_bdhw = net(x).map_bdhw
    assert map_bdhw.shape == (2, 8, *size)
    torch.testing.assert_close(map_bdhw, net.decode(torch.cat([deep_bdhw, net.low(x.c1)], 1)))


def test_each_input_of_the_decoder_can_be_cut_off() -> None:
    of = stages(64)
    net = DeepLabV3Plus(of, num_classes=3)
    stir(net)
    a, b = features(of), features(of)
    first_conv = part(net, "decode.0.0")
    kept = first_conv.weight.detach().clone()
    with torch.no_grad():
        first_conv.weight[:, 8:] = 0  # nothing from c1
        same_c4 = net(a).map_bdhw, net(b._replace(c4=a.c4)).map_bdhw
        first_conv.weight.copy_(kept)
        first_conv.weight[:, :8] = 0  # nothing from c4
        same_c1 = net(a).map_bdhw, net(b._replace(c1=a.c1)).map_bdhw
        assert not torch.allclose(same_c1[0], net(b).map_bdhw)
    torch.testing.assert_close(*same_c4)
    torch.testing.assert_close(*same_c1)


def test_a_separable_convolution_with_an_identity_across_channels_is_depthwise() -> None:
    conv = separable_conv(4, 4, 3, dilation=2)
    stir(conv)
    with torch.no_grad():
        part(conv, "3").weight.copy_(torch.eye(4)[:, :, None, None])
    conv[4] = nn.Identity()  # its norm would hide the depthwise result
    x_bchw = torch.randn(2, 4, *SIZE)
    by_channel = [
        F.conv2d(x_bchw[:, c : c + 1], part(conv, "0").weight[c : c + 1], padding=2, dilation=2)
        for c in range(4)
    ]
    torch.testing.assert_close(conv(x_bchw), part(conv, "1")(torch.cat(by_channel, 1)).relu())


@pytest.mark.parametrize("separable", [False, True])
def test_options_of_the_decoder_work(separable: bool) -> None:
    of = stages(64)
    net = DeepLabV3Plus(of, num_classes=3, decoder_convs=1, separable=separable)
    assert len(net.decode) == 1
    assert net(features(of)).map_bdhw.shape == (2, 8, 10, 14)
