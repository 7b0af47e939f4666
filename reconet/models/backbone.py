"""Backbones: the contract, the table BACKBONES, and a dilated ResNet.

He et al., "Deep Residual Learning" (CVPR 2016), with the deep stem and the dilated last stages that
semantic segmentation uses. Parameter names are those of torchvision and timm, so that public
checkpoints load unchanged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor, nn

from reconet.errors import RecipeError, pick
from reconet.models.features import Features, FeatureSpec, Stages
from reconet.models.layers import init_conv
from reconet.recipes.schema import Model

Stem = Literal["deep", "deep32", "plain"]
StrideOn = Literal["3x3", "1x1"]


class Backbone(nn.Module):
    """The contract of a backbone: image_b3hw, normalised, any size -> four maps, fine to coarse.

    A subclass sets `channels` and `strides`, each of the four maps c1 to c4. A map of stride s has
    ceil(height / s) rows and ceil(width / s) columns. Contexts read c4, some read c1 or c3 too.
    """

    name: str = "own"  # for messages
    stem: str = ""
    channels: Sequence[int]
    strides: Sequence[int]

    def forward(self, image_bchw: Tensor) -> Features:
        raise NotImplementedError

    def first_stages(self, image_bchw: Tensor, count: int) -> Features:
        """Compute the first `count` of c1..c4. The others may be empty, where that saves time."""
        return Features(*self(image_bchw))

    def stages(self, crop: tuple[int, int]) -> Stages:
        """Return the shapes of c1..c4 for an input of size `crop`."""
        specs = [
            FeatureSpec(channels=c, height=-(-crop[0] // s), width=-(-crop[1] // s))
            for c, s in zip(self.channels, self.strides, strict=True)
        ]
        return Stages(*specs)


def check_backbone(backbone: nn.Module) -> None:
    """Raise an error that explains the contract, if a backbone of a user does not keep it."""
    four = [getattr(backbone, name, ()) for name in ("channels", "strides")]
    if isinstance(backbone, Backbone) and all(len(values) == 4 for values in four):
        return
    raise RecipeError(
        f"{type(backbone).__name__} is no backbone: subclass reconet.Backbone, set `channels` and "
        "`strides` to four numbers each, and return four maps (docs/python.md)."
    )


@dataclass(frozen=True, kw_only=True)
class BlockGeometry:
    """Stride and dilation of one block."""

    stride: int
    stride_on: StrideOn  # which convolution of a bottleneck has it
    first_dilation: int  # of the convolution that could have had the stride
    dilation: int


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, channels_in: int, channels: int, geometry: BlockGeometry) -> None:
        super().__init__()
        self.conv1 = _conv3x3(channels_in, channels, geometry.stride, geometry.first_dilation)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = _conv3x3(channels, channels, 1, geometry.dilation)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(channels_in, channels, geometry.stride)

    def forward(self, x_bchw: Tensor) -> Tensor:
        shortcut = x_bchw if self.downsample is None else self.downsample(x_bchw)
        y: Tensor = self.relu(self.bn1(self.conv1(x_bchw)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + shortcut)  # type: ignore[no-any-return]


class Bottleneck(nn.Module):
    """1x1 down, 3x3, 1x1 up, beside a shortcut."""

    expansion = 4

    def __init__(self, channels_in: int, channels: int, geometry: BlockGeometry) -> None:
        super().__init__()
        channels_out = channels * self.expansion
        on_1x1 = geometry.stride_on == "1x1"
        stride_1x1, stride_3x3 = (geometry.stride, 1) if on_1x1 else (1, geometry.stride)
        self.conv1 = nn.Conv2d(channels_in, channels, 1, stride_1x1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = _conv3x3(channels, channels, stride_3x3, geometry.first_dilation)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, channels_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(channels_in, channels_out, geometry.stride)

    def forward(self, x_bchw: Tensor) -> Tensor:
        shortcut = x_bchw if self.downsample is None else self.downsample(x_bchw)
        y: Tensor = self.relu(self.bn1(self.conv1(x_bchw)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + shortcut)  # type: ignore[no-any-return]


Block = type[BasicBlock] | type[Bottleneck]

RESNETS: dict[str, tuple[Block, tuple[int, int, int, int]]] = {
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet34": (BasicBlock, (3, 4, 6, 3)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
    "resnet101": (Bottleneck, (3, 4, 23, 3)),
    "resnet152": (Bottleneck, (3, 8, 36, 3)),
}

# Stride and dilation of Res-2 .. Res-5, by output stride: a stage dilates instead of shrinking.
_STRIDES_AND_DILATIONS = {
    "8": ((1, 1), (2, 1), (1, 2), (1, 4)),
    "16": ((1, 1), (2, 1), (2, 1), (1, 2)),
    "32": ((1, 1), (2, 1), (2, 1), (2, 1)),
}


class ResNet(Backbone):
    """A network from image_bchw (normalised) to Features c1..c4."""

    def __init__(
        self,
        name: str,
        *,
        stem: Stem = "deep",
        output_stride: int = 8,
        width: float = 1.0,
        stride_on: StrideOn = "3x3",
    ) -> None:
        super().__init__()
        block, depths = pick(RESNETS, name, "backbone")
        geometries = pick(_STRIDES_AND_DILATIONS, str(output_stride), "output stride")
        if block is BasicBlock and stride_on == "1x1":
            raise RecipeError(f"{name} has no 1x1 convolutions to put the stride on; use 3x3.")
        self.name, self.stem, self.output_stride = name, stem, output_stride
        base = _scaled(64, width)
        narrow = base // 2 if stem == "deep32" else base
        stem_channels = base if stem == "plain" else 2 * narrow
        self.conv1 = _plain_stem(base) if stem == "plain" else _deep_stem(narrow)
        self.bn1 = nn.BatchNorm2d(stem_channels)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.strides = [min(stride, output_stride) for stride in (4, 8, 16, 32)]
        stages, channels = [], list[int]()
        channels_in = stem_channels
        for index, (depth, (stride, dilation)) in enumerate(zip(depths, geometries, strict=True)):
            first = BlockGeometry(
                stride=stride,
                stride_on=stride_on,
                first_dilation=max(1, dilation // 2),
                dilation=dilation,
            )
            stages.append(_stage(block, channels_in, base * 2**index, depth, first))
            channels_in = base * 2**index * block.expansion
            channels.append(channels_in)
        self.channels = channels
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        init_conv(self)

    def forward(self, image_bchw: Tensor) -> Features:
        return self.first_stages(image_bchw, 4)

    def first_stages(self, image_bchw: Tensor, count: int) -> Features:
        """Compute the first `count` of c1..c4 and no more. The others are empty."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(image_bchw))))
        maps = [x.new_empty(0)] * 4
        layers = (self.layer1, self.layer2, self.layer3, self.layer4)
        for stage, layer in enumerate(layers[:count]):
            maps[stage] = x = layer(x)
        return Features(*maps)


def _make_resnet(settings: Model) -> ResNet:
    return ResNet(
        settings.backbone,
        stem=settings.stem,
        stride_on=settings.stride_on,
        output_stride=settings.output_stride,
        width=settings.width,
    )


# Each makes a backbone from the settings `model` of a recipe, which it may ignore.
BACKBONES: dict[str, Callable[[Model], Backbone]] = dict.fromkeys(RESNETS, _make_resnet)


def _stage(
    block: Block, channels_in: int, channels: int, depth: int, first: BlockGeometry
) -> nn.Sequential:
    # The first block of a dilated stage has half of the stage's dilation: it replaces the stride,
    # and its input is still on the denser grid.
    rest = replace(first, stride=1, first_dilation=first.dilation)
    blocks = [block(channels_in, channels, first)]
    for _ in range(depth - 1):
        blocks.append(block(channels * block.expansion, channels, rest))
    return nn.Sequential(*blocks)


def _deep_stem(channels: int) -> nn.Sequential:
    # The norm and ReLU of the last convolution are the network's bn1 and relu.
    return nn.Sequential(
        _conv3x3(3, channels, 2, 1),
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
        _conv3x3(channels, channels, 1, 1),
        nn.BatchNorm2d(channels),
        nn.ReLU(inplace=True),
        _conv3x3(channels, 2 * channels, 1, 1),
    )


def _plain_stem(channels: int) -> nn.Conv2d:
    return nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False)


def _conv3x3(channels_in: int, channels_out: int, stride: int, dilation: int) -> nn.Conv2d:
    return nn.Conv2d(
        channels_in, channels_out, 3, stride, padding=dilation, dilation=dilation, bias=False
    )


def _shortcut(channels_in: int, channels_out: int, stride: int) -> nn.Sequential | None:
    if channels_in == channels_out and stride == 1:
        return None
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
    )


def _scaled(channels: int, width: float) -> int:
    scaled = round(channels * width)
    if scaled < 4:
        raise RecipeError(f"width {width:g} is too small; take at least {4 / channels:g}.")
    return scaled
