"""Parameters and MACs of the attention rivals on ResNet-101 at 512 x 512 with 21 classes.

The figures are those of the published layer lists, derived before the modules were written. MACs
are those of a training step: DANet's three classifiers run there.
"""

from typing import Any

import pytest
import torch

from reconet.cost import Cost, module_cost
from reconet.models.context import CONTEXTS
from reconet.models.context.asymmetric import FusionBlock
from reconet.models.features import Features, FeatureSpec, Stages
from reconet.models.head import classifier

STAGES = Stages(
    FeatureSpec(channels=256, height=128, width=128),
    FeatureSpec(channels=512, height=64, width=64),
    FeatureSpec(channels=1024, height=64, width=64),
    FeatureSpec(channels=2048, height=64, width=64),
)
# The figures of APNB count the projection that queries and keys share twice, as the released code
# runs it; here it runs once.
SHARED = 512 * 256 * 64 * 64


def head_cost(name: str, options: dict[str, Any]) -> tuple[int, int]:
    with torch.device("meta"):
        context = CONTEXTS[name](STAGES, num_classes=21, **options)
        features = Features(*(torch.empty(1, s.channels, s.height, s.width) for s in STAGES))
        map_bdhw = torch.empty(1, context.out_channels, 64, 64)
        parts = (
            module_cost(context, features),
            module_cost(classifier(map_bdhw.shape[1], 21), map_bdhw),
        )
    return parts[0].params + parts[1].params, parts[0].macs + parts[1].macs


def core_cost(name: str, options: dict[str, Any]) -> Cost:
    with torch.device("meta"):
        core = CONTEXTS[name](STAGES, num_classes=21, **options).core
        assert core is not None
        return module_cost(core, torch.empty(1, 512, 64, 64))


@pytest.mark.parametrize(
    ("name", "options", "params", "macs"),
    [
        ("danet", {}, 23_957_695 + 2, 109_922_222_080),  # the sheet leaves out the two gammas
        ("cfnet", {}, 12_644_469, 50_286_821_376),
        ("cfnet", {"enc": False}, 10_511_381, 45_722_370_048),
        ("ccnet", {}, 23_935_126, 99_969_138_688),
        ("emanet", {}, 11_149_589, 46_595_571_712),
        ("emanet", {"last_conv": False}, 9_974_805, 41_785_753_600),
        ("a2net", {}, 12_072_341, 49_570_381_824),
        ("asymmetric", {}, 20_341_525, 84_257_275_904 - SHARED),
        ("latentgnn", {}, 11_954_654, 49_059_139_584),
        ("acfnet", {}, 14_705_194, 60_305_702_912),
    ],
)
def test_a_head_costs_what_its_layers_do(
    name: str, options: dict[str, Any], params: int, macs: int
) -> None:
    assert head_cost(name, options) == (params, macs)


@pytest.mark.parametrize(
    ("name", "options", "params", "macs"),
    [
        ("danet", {}, 328_321, 512 * (2 * 64 + 512) * 4096 + (64 + 512) * 4096**2),
        ("cfnet", {}, 788_480, 6_979_321_856),
        ("ccnet", {}, 328_321, 3_288_334_336),
        ("ccnet", {"recurrence": 1}, 328_321, 1_644_167_168),
        ("emanet", {}, 525_824, 3_087_007_744),
        ("a2net", {}, 263_040, 1_207_959_552),
        ("a2net", {"features": 256, "maps": 256}, 525_568, 2_684_354_560),
        ("a2net", {"features": 512, "maps": 512}, 1_050_624, 6_442_450_944),
        ("asymmetric", {}, 920_576, 4_525_654_016 - SHARED),
        ("latentgnn", {}, 145_353, 696_717_312),
        ("latentgnn", {"symmetric": False}, 224_145, 1_017_581_568),
        ("latentgnn", {"stride": 1}, 577_737, 2_786_869_248),
    ],
)
def test_a_core_costs_what_its_layers_do(
    name: str, options: dict[str, Any], params: int, macs: int
) -> None:
    cost = core_cost(name, options)
    assert (cost.params, cost.macs) == (params, macs)


@pytest.mark.parametrize(
    ("low", "high", "params", "macs"),
    [(1024, 2048, 9_971_456, 41_032_876_032), (512, 512, 1_052_416, 4_525_654_016)],
)
def test_the_fusion_block_costs_what_its_layers_do(
    low: int, high: int, params: int, macs: int
) -> None:
    with torch.device("meta"):
        block = FusionBlock(low, high, 256, dropout=0.05)
        cost = module_cost(block, torch.empty(1, low, 64, 64), torch.empty(1, high, 64, 64))
    assert (cost.params, cost.macs) == (params, macs)
