"""Parameters and multiply-adds of every rival's head, on ResNet-101 at 512 x 512 with 21 classes.

The figures were derived from the published layer lists before the modules were written.
"""

from typing import Any

import pytest
import torch

from reconet.cost import module_cost
from reconet.models import CONTEXTS, Features, FeatureSpec, Stages

Cost = tuple[int, int]  # parameters, multiply-adds
STAGES = Stages(
    FeatureSpec(channels=256, height=128, width=128),
    FeatureSpec(channels=512, height=64, width=64),
    FeatureSpec(channels=1024, height=64, width=64),
    FeatureSpec(channels=2048, height=64, width=64),
)
POSITIONS = 64 * 64
REDUCE = (9_438_208, 38_654_705_664)  # 3x3 convolution 2048 -> 512 with its norm
CLASSIFY = (10_773, 44_040_192)  # 512 -> 21
SMOOTH = (2_360_320, 9_663_676_416)  # 3x3 convolution 512 -> 512 with its norm
JOIN = (11_797_504, 48_318_382_080)  # 3x3 convolution 2560 -> 512 with its norm
FUSE = (18_875_392, 77_309_411_328)  # 3x3 convolution 4096 -> 512 with its norm
NONLOCAL = (525_568, 10_737_418_240)  # 4 * 512 * 256 * 4096 + 2 * 256 * 4096^2
# The figures of APNB count the projection that queries and keys share twice, as the released code
# runs it; here it runs once.
SHARED = 512 * 256 * POSITIONS


def acm(channels: int, scale: int) -> Cost:
    """Count APCNet's module: two reductions, three inner convolutions, affinities."""
    reduce, inner, cells = channels * 512, 512 * 512, scale**2
    params = 2 * (reduce + 1024) + 3 * (inner + 1024) + 513 * cells
    return params, reduce * (POSITIONS + cells) + inner * (2 * POSITIONS + 1) + (
        2 * 512 * cells * POSITIONS
    )


def dcm(channels: int, kernel: int) -> Cost:
    """Count DMNet's module: filters with a bias, one reduction, two norms."""
    reduce, cells = channels * 512, kernel**2
    params = (reduce + 512) + (reduce + 1024) + 1024
    return params, reduce * (cells + POSITIONS) + 512 * cells * POSITIONS


def added(*costs: Cost) -> Cost:
    return sum(params for params, _ in costs), sum(macs for _, macs in costs)


HEADS: list[tuple[str, dict[str, Any], Cost]] = [
    ("parsenet", {}, (9_722_901, 38_743_048_192)),
    ("pspnet", {}, (23_084_565, 77_405_880_320)),
    ("deeplabv3", {}, (15_540_501, 61_494_263_808)),
    ("deeplabv3", {"last_3x3": True}, (16_130_837, 63_910_182_912)),
    ("deeplabv3plus", {"decoder_convs": 1}, (16_253_813, 73_237_266_432)),
    ("deeplabv3plus", {}, (16_844_149, 82_900_942_848)),
    ("nonlocal", {}, added(REDUCE, NONLOCAL, SMOOTH, CLASSIFY)),
    ("nonlocal", {"concat": True}, added(REDUCE, NONLOCAL, SMOOTH, JOIN, CLASSIFY)),
    # the layer of the loss is there, and works in training only
    ("encnet", {}, added(REDUCE, (542_304, 1_208_221_696), (10_773, 0), CLASSIFY)),
    ("psanet", {}, (27_677_205, 93_863_280_640)),
    ("apcnet", {}, added(*(acm(2048, s) for s in (1, 2, 3, 6)), FUSE, CLASSIFY)),
    ("dmnet", {}, added(*(dcm(2048, k) for k in (1, 3, 5, 7)), FUSE, CLASSIFY)),
    ("senet", {}, added(REDUCE, (33_312, 32_768), CLASSIFY)),
    ("cbam", {}, added(REDUCE, (33_412, 466_944), CLASSIFY)),
    # the sheet leaves out the two gammas, and its MACs have two more classifiers
    ("danet", {}, (23_957_695 + 2, 109_922_222_080 - 2 * CLASSIFY[1])),
    ("cfnet", {}, (12_644_469, 50_286_821_376)),
    ("cfnet", {"enc": False}, (10_511_381, 45_722_370_048)),
    ("ccnet", {}, (23_935_126, 99_969_138_688)),
    ("emanet", {}, (11_149_589, 46_595_571_712)),
    ("emanet", {"last_conv": False}, (9_974_805, 41_785_753_600)),
    ("a2net", {}, (12_072_341, 49_570_381_824)),
    ("asymmetric", {}, (20_341_525, 84_257_275_904 - SHARED)),
    ("latentgnn", {}, (11_954_654, 49_059_139_584)),
    ("acfnet", {}, (14_705_194, 60_305_702_912)),
]
CORES: list[tuple[str, dict[str, Any], Cost]] = [
    ("nonlocal", {}, NONLOCAL),
    ("encnet", {}, (542_304 + 10_773, 1_208_221_696)),
    ("senet", {}, (33_312, 32_768)),
    ("cbam", {}, (33_412, 466_944)),
    ("danet", {}, (328_321, 512 * (2 * 64 + 512) * 4096 + (64 + 512) * 4096**2)),
    ("cfnet", {}, (788_480, 6_979_321_856)),
    ("ccnet", {}, (328_321, 3_288_334_336)),
    ("ccnet", {"recurrence": 1}, (328_321, 1_644_167_168)),
    ("emanet", {}, (525_824, 3_087_007_744)),
    ("a2net", {}, (263_040, 1_207_959_552)),
    ("a2net", {"features": 512, "maps": 512}, (1_050_624, 6_442_450_944)),
    ("asymmetric", {}, (920_576, 4_525_654_016 - SHARED)),
    ("latentgnn", {}, (145_353, 696_717_312)),
    ("latentgnn", {"symmetric": False}, (224_145, 1_017_581_568)),
    ("latentgnn", {"stride": 1}, (577_737, 2_786_869_248)),
]


@pytest.mark.parametrize(("name", "options", "cost"), HEADS)
def test_a_head_and_its_classifier_have_the_published_cost(
    name: str, options: dict[str, Any], cost: Cost
) -> None:
    with torch.device("meta"):
        context = CONTEXTS[name](STAGES, num_classes=21, **options).eval()
        features = Features(*(torch.empty(1, s.channels, s.height, s.width) for s in STAGES))
        map_bdhw = context(features).map_bdhw
    head = module_cost(context, features)
    classifier = (21 * (map_bdhw.shape[1] + 1), 21 * map_bdhw.numel())
    assert added((head.params, head.macs), classifier) == cost


@pytest.mark.parametrize(("name", "options", "cost"), CORES)
def test_a_core_has_the_published_cost(name: str, options: dict[str, Any], cost: Cost) -> None:
    with torch.device("meta"):
        core = CONTEXTS[name](STAGES, num_classes=21, **options).eval().core
        assert core is not None
        counted = module_cost(core, torch.empty(1, 512, 64, 64))
    assert (counted.params, counted.macs) == cost
