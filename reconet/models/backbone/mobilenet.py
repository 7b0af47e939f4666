"""MobileNetV2 with dilation: a backbone that trains whole on a laptop.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (CVPR 2018). Parameter
names are those of torchvision, so that its checkpoints load unchanged. Those of timm are renamed.
"""

from collections.abc import Iterator

from torch import Tensor, nn

from reconet.errors import RecipeError, pick
from reconet.models.backbone.base import Backbone, PublicWeights
from reconet.models.features import Features
from reconet.models.layers import init_conv
from reconet.models.weights import download, read_tensors
from reconet.recipes.schema import Model

MOBILENET = "mobilenet_v2"
IMAGENET = "timm/mobilenetv2_100.ra_in1k"
LICENCE = "Apache-2.0"  # as the hub page of these states
LAST = 1280  # channels of the last layer

# Of each group of blocks: expansion, channels, blocks, and the stride that it has without dilation.
GROUPS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
# features.0 is the stem. Each stage ends with the layer of its number.
STAGE_ENDS = (3, 6, 13, 18)
_STAGES = {f"features.{i}": sum(i > end for end in STAGE_ENDS) + 1 for i in range(1, 19)}


class InvertedResidual(nn.Module):
    """1x1 up, depthwise 3x3, 1x1 down without ReLU, beside a shortcut if the shape stays."""

    def __init__(
        self, channels_in: int, channels: int, expansion: int, *, stride: int, dilation: int
    ) -> None:
        super().__init__()
        hidden = channels_in * expansion
        layers = [] if expansion == 1 else [_conv_bn_relu6(channels_in, hidden, 1)]
        depthwise = _conv_bn_relu6(
            hidden, hidden, 3, stride=stride, dilation=dilation, groups=hidden
        )
        narrow = nn.Conv2d(hidden, channels, 1, bias=False)
        self.conv = nn.Sequential(*layers, depthwise, narrow, nn.BatchNorm2d(channels))
        self.adds = stride == 1 and channels_in == channels

    def forward(self, x_bchw: Tensor) -> Tensor:
        y_bchw: Tensor = self.conv(x_bchw)
        return x_bchw + y_bchw if self.adds else y_bchw


class MobileNetV2(Backbone):
    """A network from image_bchw (normalised) to Features c1..c4."""

    name = MOBILENET
    first_modules = ("features.0", "features.1")

    def __init__(self, *, output_stride: int = 32, width: float = 1.0) -> None:
        super().__init__()
        pick(dict.fromkeys(("8", "16", "32")), str(output_stride), "output stride")
        self.output_stride = output_stride
        channels = _scaled(32, width)
        layers: list[nn.Module] = [_conv_bn_relu6(3, channels, 3, stride=2)]
        stride, dilation = 2, 1
        for expansion, base, count, group_stride in GROUPS:
            first_stride, first_dilation = group_stride, dilation
            if stride * group_stride > output_stride:
                # The first block replaces the stride, and its input is still on the denser grid.
                first_stride, dilation = 1, dilation * group_stride
            stride *= first_stride
            for index in range(count):
                block = InvertedResidual(
                    channels,
                    _scaled(base, width),
                    expansion,
                    stride=1 if index else first_stride,
                    dilation=dilation if index else first_dilation,
                )
                layers.append(block)
                channels = _scaled(base, width)
        layers.append(_conv_bn_relu6(channels, _scaled(LAST, width), 1))
        self.features = nn.Sequential(*layers)
        self.strides = [min(stride, output_stride) for stride in (4, 8, 16, 32)]
        self.channels = [_scaled(base, width) for base in (24, 32, 96, LAST)]
        init_conv(self)

    def forward(self, image_bchw: Tensor) -> Features:
        return self.first_stages(image_bchw, 4)

    def first_stages(self, image_bchw: Tensor, count: int) -> Features:
        """Compute the first `count` of c1..c4 and no more. The others are empty."""
        x = image_bchw
        maps = [x.new_empty(0)] * 4
        first = 0
        for stage, end in enumerate(STAGE_ENDS[:count]):
            for index in range(first, end + 1):  # one by one: costs are counted by layer
                x = self.features[index](x)
            maps[stage] = x
            first = end + 1
        return Features(*maps)

    def cost_parts(self) -> dict[str, tuple[str, ...]]:
        """Return stem and stages."""
        parts: dict[str, tuple[str, ...]] = {"stem": ("features.0",)}
        for name, stage in _STAGES.items():
            parts[f"c{stage}"] = (*parts.get(f"c{stage}", ()), name)
        return parts

    def parameter_depths(self) -> dict[str, int]:
        """Count the stages: the stem is 0, the last is 4."""
        names = [name for name, _ in self.named_parameters()]
        return {name: _STAGES.get(".".join(name.split(".")[:2]), 0) for name in names}

    def public_weights(self) -> PublicWeights:
        """Read the weights that timm trained on ImageNet."""
        names, renamed = dict(_timm_names()), {}
        for key, value in read_tensors(download(IMAGENET)).items():
            layer, _, kind = key.rpartition(".")
            renamed[f"{names.get(layer, layer)}.{kind}"] = value
        return PublicWeights(renamed)

    def licence(self, weights: str | None) -> str:
        """Name the licence of the weights trained on ImageNet."""
        return LICENCE if weights == "imagenet" else ""


def make_mobilenet(settings: Model) -> MobileNetV2:
    """Make a MobileNetV2 of the settings `model` of a recipe."""
    return MobileNetV2(output_stride=settings.output_stride, width=settings.width)


def _timm_names() -> Iterator[tuple[str, str]]:
    """List the layers of timm's MobileNetV2, each with its name here."""
    yield from (("conv_stem", "features.0.0"), ("bn1", "features.0.1"))
    yield from (("conv_head", "features.18.0"), ("bn2", "features.18.1"))
    blocks = [(g, n) for g, (_, _, count, _) in enumerate(GROUPS) for n in range(count)]
    for number, (group, block) in enumerate(blocks, start=1):
        names = {"conv_pw": "0.0", "bn1": "0.1", "conv_dw": "1.0", "bn2": "1.1"}
        names |= {"conv_pwl": "2", "bn3": "3"}
        if GROUPS[group][0] == 1:  # does not expand first
            names = {"conv_dw": "0.0", "bn1": "0.1", "conv_pw": "1", "bn2": "2"}
        for layer, place in names.items():
            yield f"blocks.{group}.{block}.{layer}", f"features.{number}.conv.{place}"


def _conv_bn_relu6(
    channels_in: int,
    channels: int,
    size: int,
    *,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
) -> nn.Sequential:
    padding = dilation * (size // 2)
    conv = nn.Conv2d(
        channels_in, channels, size, stride, padding, dilation=dilation, groups=groups, bias=False
    )
    return nn.Sequential(conv, nn.BatchNorm2d(channels), nn.ReLU6(inplace=True))


def _scaled(channels: int, width: float) -> int:
    """Round scaled channels to a multiple of 8, at least 8, and lose at most a tenth."""
    if channels * width < 1:
        raise RecipeError(f"width {width:g} is too small; take at least {1 / channels:g}.")
    scaled = max(8, int(channels * width + 4) // 8 * 8)
    return scaled if scaled >= 0.9 * channels * width else scaled + 8
