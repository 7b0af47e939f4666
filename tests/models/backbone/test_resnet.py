from hashlib import sha256

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from reconet.errors import RecipeError
from reconet.models.backbone import RESNETS, Bottleneck, ResNet, Stem

# Without a classifier; plain stem. From torchvision's published totals less their fc layers.
PLAIN_PARAMETERS = {
    "resnet18": 11_689_512 - 513_000,
    "resnet34": 21_797_672 - 513_000,
    "resnet50": 25_557_032 - 2_049_000,
    "resnet101": 44_549_160 - 2_049_000,
    "resnet152": 60_192_808 - 2_049_000,
}


# Of names and shapes of all tensors, with the deep stem. Files of networks have them.
TENSORS = {
    "resnet18": "e6329fdb08779a3a",
    "resnet34": "a7dda8edd71fda78",
    "resnet50": "e29d89d48329a5f2",
    "resnet101": "bb9ae744fa0c62bb",
    "resnet152": "2a6080a6192d9450",
}


@pytest.mark.parametrize("name", sorted(RESNETS))
def test_tensors_keep_their_names_order_and_shapes(name: str) -> None:
    with torch.device("meta"):
        state = ResNet(name).state_dict()
    text = "\n".join(f"{key} {tuple(value.shape)}" for key, value in state.items())
    assert sha256(text.encode()).hexdigest().startswith(TENSORS[name])


def test_stages_are_layers_for_the_layer_decay() -> None:
    depths = ResNet("resnet18", width=0.125).parameter_depths()
    assert depths["conv1.0.weight"] == depths["bn1.weight"] == 0
    assert [depths[f"layer{n}.0.conv1.weight"] for n in range(1, 5)] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", sorted(RESNETS))
def test_plain_networks_have_the_published_number_of_parameters(name: str) -> None:
    with torch.device("meta"):
        net = ResNet(name, stem="plain")
    assert sum(p.numel() for p in net.parameters()) == PLAIN_PARAMETERS[name]


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
@pytest.mark.parametrize("stem", ["deep", "plain"])
@pytest.mark.parametrize("output_stride", [8, 16, 32])
@pytest.mark.parametrize("size", [(64, 96), (65, 97), (33, 57)])
def test_stages_promise_the_shapes_that_come(
    name: str, stem: Stem, output_stride: int, size: tuple[int, int]
) -> None:
    net = ResNet(name, stem=stem, output_stride=output_stride, width=0.125).eval()
    features = net(torch.randn(1, 3, *size))
    for feature, spec in zip(features, net.stages(size), strict=True):
        assert feature.shape[1:] == (spec.channels, spec.height, spec.width)


def test_the_full_network_has_the_channels_of_the_paper() -> None:
    with torch.device("meta"):
        net = ResNet("resnet101")
    specs = net.stages((512, 512))
    assert [s.channels for s in specs] == [256, 512, 1024, 2048]
    assert [s.height for s in specs] == [128, 64, 64, 64]


def test_a_dilated_stage_dilates_its_first_block_by_half() -> None:
    net = ResNet("resnet50", width=0.125)
    dilations = [[block.conv2.dilation[0] for block in s] for s in (net.layer3, net.layer4)]  # type: ignore[union-attr, index]
    assert dilations == [[1, 2, 2, 2, 2, 2], [2, 4, 4]]


def test_the_stride_is_where_it_was_asked_for() -> None:
    def strides(net: ResNet) -> tuple[object, object]:
        block = net.layer2[0]
        return block.conv1.stride, block.conv2.stride

    assert strides(ResNet("resnet50", width=0.125)) == ((1, 1), (2, 2))
    assert strides(ResNet("resnet50", width=0.125, stride_on="1x1")) == ((2, 2), (1, 1))
    with pytest.raises(RecipeError, match="resnet18 has no 1x1"):
        ResNet("resnet18", stride_on="1x1")


def test_dilation_instead_of_stride_keeps_what_every_other_pixel_sees() -> None:
    """Check that on the coarse grid a dilated stage computes the strided stage.

    Padding differs, so the comparison stays away from the border.
    """
    dense = ResNet("resnet18", width=0.125, output_stride=16)
    coarse = ResNet("resnet18", width=0.125, output_stride=32)
    coarse.load_state_dict(dense.state_dict())
    for net in (dense, coarse):
        net.eval()
    x = torch.randn(1, 3, 512, 512)
    c4_dense, c4_coarse = dense(x).c4[..., ::2, ::2], coarse(x).c4
    inner = slice(6, 10)
    torch.testing.assert_close(
        c4_dense[..., inner, inner], c4_coarse[..., inner, inner], atol=1e-4, rtol=1e-4
    )


def test_widths_scale_every_stage_and_too_small_ones_are_refused() -> None:
    net = ResNet("resnet50", width=0.25)
    assert net.channels == [64, 128, 256, 512]
    assert isinstance(net.conv1, nn.Sequential)
    with pytest.raises(RecipeError, match=r"width 0\.01 is too small"):
        ResNet("resnet50", width=0.01)


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(RecipeError, match=r"unknown backbone 'resnet51'\. Did you mean 'resnet5?"):
        ResNet("resnet51")
    with pytest.raises(RecipeError, match="unknown output stride '4'"):
        ResNet("resnet50", output_stride=4)


def test_a_bottleneck_is_three_convolutions_around_a_shortcut() -> None:
    """Compute the block with functions, batch norm as in use."""
    block = ResNet("resnet50", width=0.125, output_stride=32).eval().layer2[0]
    assert isinstance(block, Bottleneck)
    assert block.downsample is not None
    shrink, shrink_norm = block.downsample
    assert isinstance(shrink, nn.Conv2d)
    assert isinstance(shrink_norm, nn.BatchNorm2d)
    for part in block.modules():
        if isinstance(part, nn.BatchNorm2d):
            for name in ("weight", "bias", "running_mean", "running_var"):
                getattr(part, name).data.uniform_(0.5, 1.5)

    def norm(x: torch.Tensor, bn: nn.BatchNorm2d) -> torch.Tensor:
        return F.batch_norm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias, eps=1e-5)

    x = torch.randn(2, 32, 9, 11)
    y = F.relu(norm(F.conv2d(x, block.conv1.weight), block.bn1))
    y = F.relu(norm(F.conv2d(y, block.conv2.weight, stride=2, padding=1), block.bn2))
    y = norm(F.conv2d(y, block.conv3.weight), block.bn3)
    short = norm(F.conv2d(x, shrink.weight, stride=2), shrink_norm)
    torch.testing.assert_close(block(x), F.relu(y + short))
