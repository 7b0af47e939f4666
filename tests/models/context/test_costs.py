"""Parameters and multiply-adds of every rival's head, on ResNet-101 at 512 x 512 with 21 classes.

The figures were derived from the published layer lists before the modules were written.
"""

import pytest
import torch
from torch import Tensor, nn

from reconet.cost.counter import count, module_cost
from reconet.models.context import CONTEXTS
from reconet.models.context.apcnet import AdaptiveContext
from reconet.models.context.dmnet import DynamicFilter
from reconet.models.features import Features, FeatureSpec, Stages
from reconet.models.head import classifier

STAGES = Stages(
    FeatureSpec(channels=256, height=128, width=128),
    FeatureSpec(channels=512, height=64, width=64),
    FeatureSpec(channels=1024, height=64, width=64),
    FeatureSpec(channels=2048, height=64, width=64),
)
REDUCE = (9_438_208, 38_654_705_664)  # 3x3 convolution 2048 -> 512 with its norm
CLASSIFY = (10_773, 44_040_192)  # 512 -> 21
SMOOTH = (2_360_320, 9_663_676_416)  # 3x3 convolution 512 -> 512 with its norm


JOIN = (11_797_504, 48_318_382_080)  # 3x3 convolution 2560 -> 512 with its norm
FUSE = (18_875_392, 77_309_411_328)  # 3x3 convolution 4096 -> 512 with its norm
NONLOCAL = (525_568, 10_737_418_240)  # 4 * 512 * 256 * 4096 + 2 * 256 * 4096^2
POSITIONS = 64 * 64


def acm(channels: int, scale: int) -> tuple[int, int]:
    """Count APCNet's module: two reductions, three inner convolutions, affinities."""
    reduce, inner, cells = channels * 512, 512 * 512, scale**2
    params = 2 * (reduce + 1024) + 3 * (inner + 1024) + 513 * cells
    return params, reduce * (POSITIONS + cells) + inner * (2 * POSITIONS + 1) + (
        2 * 512 * cells * POSITIONS
    )


def dcm(channels: int, kernel: int) -> tuple[int, int]:
    """Count DMNet's module: filters with a bias, one reduction, two norms."""
    reduce, cells = channels * 512, kernel**2
    params = (reduce + 512) + (reduce + 1024) + 1024
    return params, reduce * (cells + POSITIONS) + 512 * cells * POSITIONS


class Head(nn.Module):
    """A context and its classifier, as the cost tables count a head."""

    def __init__(self, name: str, options: dict[str, object]) -> None:
        super().__init__()
        self.context = CONTEXTS[name](STAGES, num_classes=21, **options)
        self.classify = classifier(self.context.out_channels, 21)

    def forward(self, features: Features) -> Tensor:
        logits_bkhw: Tensor = self.classify(self.context(features).map_bdhw)
        return logits_bkhw


def added(*costs: tuple[int, int]) -> tuple[int, int]:
    return sum(params for params, _ in costs), sum(macs for _, macs in costs)


@pytest.mark.parametrize(
    ("name", "options", "params", "macs"),
    [
        ("parsenet", {}, 9_722_901, 38_743_048_192),
        ("pspnet", {}, 23_084_565, 77_405_880_320),
        ("deeplabv3", {}, 15_540_501, 61_494_263_808),
        ("deeplabv3", {"last_3x3": True}, 16_130_837, 63_910_182_912),
        ("deeplabv3plus", {"decoder_convs": 1}, 16_253_813, 73_237_266_432),
        ("deeplabv3plus", {}, 16_844_149, 82_900_942_848),
        ("nonlocal", {}, *added(REDUCE, NONLOCAL, SMOOTH, CLASSIFY)),
        ("nonlocal", {"concat": True}, *added(REDUCE, NONLOCAL, SMOOTH, JOIN, CLASSIFY)),
        # the layer of the loss is there, and works in training only
        ("encnet", {}, *added(REDUCE, (542_304, 1_208_221_696), (10_773, 0), CLASSIFY)),
        ("psanet", {}, 27_677_205, 93_863_280_640),
        ("apcnet", {}, *added(*(acm(2048, s) for s in (1, 2, 3, 6)), FUSE, CLASSIFY)),
        ("dmnet", {}, *added(*(dcm(2048, k) for k in (1, 3, 5, 7)), FUSE, CLASSIFY)),
        ("senet", {}, *added(REDUCE, (33_312, 32_768), CLASSIFY)),
        ("cbam", {}, *added(REDUCE, (33_412, 466_944), CLASSIFY)),
    ],
)
def test_a_head_has_the_published_cost(
    name: str, options: dict[str, object], params: int, macs: int
) -> None:
    with torch.device("meta"):
        head = Head(name, options).eval()
        features = Features(*(torch.empty(1, s.channels, s.height, s.width) for s in STAGES))
    cost = module_cost(head, features)
    assert (cost.params, cost.macs) == (params, macs)


@pytest.mark.parametrize(
    ("name", "params", "macs"),
    [
        ("nonlocal", *NONLOCAL),
        ("encnet", 542_304 + 10_773, 1_208_221_696),
        ("senet", 33_312, 32_768),
        ("cbam", 33_412, 466_944),
    ],
)
def test_a_core_has_the_published_cost(name: str, params: int, macs: int) -> None:
    with torch.device("meta"):
        core = CONTEXTS[name](STAGES, num_classes=21).eval().core
        x_bchw = torch.empty(1, 512, 64, 64)
    assert core is not None
    cost = module_cost(core, x_bchw)
    assert (cost.params, cost.macs) == (params, macs)


def test_four_modules_of_apcnet_on_512_channels_have_the_published_cost() -> None:
    with torch.device("meta"):
        x_bchw = torch.empty(1, 512, 64, 64)
        full = [module_cost(AdaptiveContext(512, 512, s).eval(), x_bchw) for s in (1, 2, 3, 6)]
        lean = [
            module_cost(AdaptiveContext(512, 512, s, fusion=False).eval(), x_bchw)
            for s in (1, 2, 3, 6)
        ]
    assert added(*((c.params, c.macs) for c in full)) == (5_289_010, 13_108_772_864)
    assert added(*((c.params, c.macs) for c in lean)) == (4_236_338, 8_813_805_568)


def test_four_modules_of_dmnet_on_512_channels_have_the_published_cost() -> None:
    with torch.device("meta"):
        x_bchw = torch.empty(1, 512, 64, 64)
        costs = [module_cost(DynamicFilter(512, 512, k).eval(), x_bchw) for k in (1, 3, 5, 7)]
    total = added(*((c.params, c.macs) for c in costs))
    assert total == added(*(dcm(512, k) for k in (1, 3, 5, 7)))
    assert (f"{total[0] / 1e6:.3f}", f"{total[1] / 1e9:.3f}") == ("2.107", "4.493")


def test_the_core_is_counted_as_a_part_of_the_head() -> None:
    """Check that no head bypasses its core, which would then look free."""
    for name in ("nonlocal", "encnet", "senet", "cbam"):
        with torch.device("meta"):
            context = CONTEXTS[name](STAGES, num_classes=21).eval()
            features = Features(*(torch.empty(1, s.channels, s.height, s.width) for s in STAGES))
        macs, _ = count(context, features)
        assert context.core is not None
        alone = module_cost(context.core, torch.empty(1, 512, 64, 64, device="meta"))
        assert macs["core"] == alone.macs
