"""Winograd's way equals the direct convolution, at any size, dilation and batch."""

import pytest
import torch
from torch import nn

from reconet.inference import make_forward
from reconet.models import create_model, fold
from reconet.models.fold import WinogradConv, convolve, transform_weights, use_winograd


def conv(dilation: int = 1, *, bias: bool = True, channels: tuple[int, int] = (5, 3)) -> nn.Conv2d:
    torch.manual_seed(0)
    return nn.Conv2d(*channels, 3, padding=dilation, dilation=dilation, bias=bias)


@pytest.fixture
def any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take Winograd's way for networks of every width and maps of every size."""
    monkeypatch.setattr(fold, "LEAST_CHANNELS", 1)
    monkeypatch.setattr(fold, "LEAST_TILES", 1)
    monkeypatch.setattr(fold, "MOST_WASTE", 1000)


@pytest.mark.usefixtures("any_width")
@pytest.mark.parametrize("dilation", [1, 2, 4])
@pytest.mark.parametrize("size", [(8, 8), (7, 13), (1, 5), (33, 4)])
@pytest.mark.parametrize("batch", [1, 3])
def test_it_equals_the_direct_convolution(size: tuple[int, int], dilation: int, batch: int) -> None:
    direct = conv(dilation)
    x_bchw = torch.randn(batch, 5, *size)
    with torch.no_grad():
        got_bkhw = WinogradConv(direct)(x_bchw)
        torch.testing.assert_close(got_bkhw, direct(x_bchw), atol=1e-5, rtol=1e-5)


def test_rows_of_tiles_that_come_one_by_one_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    direct = conv()
    x_bchw = torch.randn(2, 5, 19, 9)
    with torch.no_grad():
        weight_nck = transform_weights(direct.weight)
        whole = convolve(x_bchw, weight_nck, direct.bias, 1, tiles=(5, 3))
        monkeypatch.setattr(fold, "TILES_AT_ONCE", 1)
        rows = convolve(x_bchw, weight_nck, direct.bias, 1, tiles=(5, 3))
    torch.testing.assert_close(rows, whole)


def test_only_convolutions_that_it_can_compute_are_replaced() -> None:
    wide = (256, 256)
    model = nn.Sequential(
        conv(channels=wide),
        nn.Conv2d(256, 256, 1),
        nn.Conv2d(256, 256, 3, padding=1, stride=2),
        nn.Conv2d(256, 256, 3, padding=1, groups=2),
        nn.Conv2d(256, 256, 3),
        nn.Conv2d(256, 256, 3, padding=1, padding_mode="reflect"),
        conv(channels=(256, 21)),
    )
    use_winograd(model)
    assert [isinstance(layer, WinogradConv) for layer in model] == [True, *[False] * 6]


def test_small_maps_autocast_and_gradients_take_the_direct_way() -> None:
    layer = WinogradConv(conv(channels=(256, 256)))
    with torch.no_grad():
        layer(torch.zeros(1, 256, 16, 16))  # 16 tiles
        layer(torch.zeros(2, 256, 17, 17))  # 50 tiles, but 2.8 times the results
        with torch.autocast("cpu", dtype=torch.bfloat16):
            layer(torch.zeros(2, 256, 16, 16))
    layer(torch.zeros(2, 256, 16, 16)).sum().backward()
    assert layer.weight_nck is None
    with torch.no_grad():
        layer(torch.zeros(2, 256, 16, 16))
    assert layer.weight_nck is not None


@pytest.mark.usefixtures("any_width")
def test_a_network_gives_the_same_logits_and_labels() -> None:
    torch.manual_seed(0)
    model = create_model("reconet", backbone="resnet50", width=0.125, num_classes=5, crop=64).eval()
    image_bchw = torch.randint(0, 256, (2, 3, 65, 49), dtype=torch.uint8)
    got_bkij = make_forward(model, torch.device("cpu"))(image_bchw)
    with torch.no_grad():
        expected_bkij = model.coarse(image_bchw)
    tolerance = 1e-4 * expected_bkij.abs().max().item()
    torch.testing.assert_close(got_bkij, expected_bkij, atol=tolerance, rtol=0)
    assert (got_bkij.argmax(1) == expected_bkij.argmax(1)).float().mean() > 0.99
