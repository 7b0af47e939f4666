"""ResNet with dilation.

He et al., "Deep Residual Learning" (CVPR 2016), with the deep stem and the dilated last stages that
semantic segmentation uses. Parameter names are those of torchvision and timm, so that public
checkpoints load unchanged.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from torch import Tensor, nn

from reconet.errors import CheckpointError, RecipeError, pick
from reconet.models.backbone.base import Backbone, PublicWeights
from reconet.models.features import Features
from reconet.models.layers import init_conv
from reconet.models.weights import download, read_tensors
from reconet.recipes.schema import Model

Stem = Literal["deep", "deep32", "plain"]
StrideOn = Literal["3x3", "1x1"]
STEM = ("conv1", "bn1", "relu", "maxpool")
LAYERS = ("layer1", "layer2", "layer3", "layer4")

# The public weights. timm's "s" networks have the deep stem; "tv" are torchvision's.
IMAGENET = {
    ("resnet50", "deep"): "timm/resnet50s.gluon_in1k",
    ("resnet101", "deep"): "timm/resnet101s.gluon_in1k",
    ("resnet152", "deep"): "timm/resnet152s.gluon_in1k",
    ("resnet18", "plain"): "timm/resnet18.tv_in1k",
    ("resnet34", "plain"): "timm/resnet34.tv_in1k",
    ("resnet50", "plain"): "timm/resnet50.tv_in1k",
    ("resnet101", "plain"): "timm/resnet101.tv_in1k",
    ("resnet152", "plain"): "timm/resnet152.tv_in1k",
}
LICENCES = {"deep": "Apache-2.0", "plain": "BSD-3-Clause"}  # as the hub pages of these state


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

    first_modules = ("conv1", "layer1")

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

    def cost_parts(self) -> dict[str, tuple[str, ...]]:
        """Return stem and stages."""
        return {"stem": STEM} | {layer: (layer,) for layer in LAYERS}

    def parameter_depths(self) -> dict[str, int]:
        """Count the stages: the stem is 0, layer4 is 4."""
        deep = {layer: depth for depth, layer in enumerate(LAYERS, start=1)}
        return {name: deep.get(name.split(".")[0], 0) for name, _ in self.named_parameters()}

    def public_weights(self) -> PublicWeights:
        """Read the weights that were trained on ImageNet."""
        return PublicWeights(read_tensors(imagenet_file(self.name, self.stem)))

    def licence(self, weights: str | None) -> str:
        """Name the licence of the weights trained on ImageNet."""
        return LICENCES.get(self.stem, "") if weights == "imagenet" else ""


def make_resnet(settings: Model) -> ResNet:
    """Make a ResNet of the settings `model` of a recipe."""
    return ResNet(
        settings.backbone,
        stem=settings.stem,
        stride_on=settings.stride_on,
        output_stride=settings.output_stride,
        width=settings.width,
    )


def imagenet_file(name: str, stem: str) -> Path:
    """Find the weights trained on ImageNet, or raise an error."""
    if (name, stem) not in IMAGENET:
        raise CheckpointError(
            f"there are no ImageNet weights for {name} with a {stem} stem; "
            f"set model.stem={'plain' if stem == 'deep' else 'deep'}, or name a file."
        )
    return download(IMAGENET[name, stem])


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
