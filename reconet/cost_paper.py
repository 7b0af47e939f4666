"""The paper's two cost tables, recomputed: by the paper's rule, and by the uniform one of cost.py.

The paper states no rule. Its numbers follow those of a layer profiler of the time: a layer object
counts what it does when it is called last, and everything between layer objects (matrix products
written as functions, sums, resizing) counts nothing. Without any free choice that gives the printed
190.6 G for ResNet-101. It also leaves out the reconstruction itself, the r*C*H*W products that the
method is about: hence 0.0215 G for TGM + TRM where every product counted gives 0.1515 G.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from reconet.cost import module_cost
from reconet.models.backbone import ResNet
from reconet.models.context.reconet import RecoNet, TensorReconstruction
from reconet.models.features import Features, FeatureSpec

# exact: no free choice. assumed: exact under the assumption that the note states.
Evidence = Literal["exact", "assumed", "not reproduced"]


@dataclass(frozen=True, kw_only=True)
class PaperCost:
    """What the paper's rule counts, for one picture."""

    flops: int
    memory_bytes: int  # outputs of all layer objects, each once: not what a GPU would hold


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table of the paper, in G (1e9), MiB and M (1e6)."""

    table: Literal["module", "network"]
    method: str
    size: str  # of the input
    paper_g: float
    paper_mib: float | None
    rule_g: float
    rule_mib: float
    evidence: Evidence
    uniform_g: float
    params_m: float
    note: str


def paper_cost(module: nn.Module, *inputs: Tensor | Features) -> PaperCost:
    """Count `module` on meta tensors by the paper's rule."""
    calls: dict[nn.Module, tuple[int, int]] = {}

    def on_call(layer: nn.Module, args: tuple[Tensor, ...], result: Tensor) -> None:
        # The last call wins: a ReLU that a block uses three times counts once, as in the paper.
        calls[layer] = _layer_flops(layer, args[0], result), 4 * result[0].numel()

    hooks = [
        layer.register_forward_hook(on_call)
        for layer in module.modules()
        if not list(layer.children())
    ]
    try:
        with torch.no_grad():
            module.eval()(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    flops, memory_bytes = (sum(column) for column in zip(*calls.values(), strict=True))
    return PaperCost(flops=flops, memory_bytes=memory_bytes)


def _layer_flops(layer: nn.Module, x: Tensor, y: Tensor) -> int:
    match layer:
        case nn.Conv2d():
            taps = layer.weight[0].numel()
            return y.numel() * (taps + (layer.bias is not None))
        case nn.Linear():
            return y.numel() * (layer.in_features + (layer.bias is not None))
        case nn.BatchNorm2d():
            return 2 * y.numel()
        case nn.ReLU():
            return y.numel()
        case nn.MaxPool2d() | nn.AvgPool2d() | nn.AdaptiveAvgPool2d():
            return x.numel()
        case _:
            return 0


def paper_rows() -> list[Row]:
    """Every row that the package can build, in the paper's order."""
    with torch.device("meta"):
        return [*_module_rows(), *_network_rows()]


def _module_rows() -> list[Row]:
    """Table "Computational cost and GPU occupation of TGM+TRM": one 512 x 64 x 64 map."""
    x_bchw = torch.empty(1, 512, 64, 64)
    core = TensorReconstruction(FeatureSpec(channels=512, height=64, width=64), rank=64)
    products = core.rank_logits_r.numel() * x_bchw.numel()
    module_row = partial(
        _row, table="module", size="512x64x64", inputs=x_bchw, paper_g=0.0215, paper_mib=8.31
    )
    return [
        module_row(
            method="TGM+TRM",
            module=core,
            evidence="not reproduced",
            note="the rule sees the generators only; it leaves out the reconstruction itself, "
            f"r*C*H*W = {products / 1e9:.4f} G products",
        ),
        module_row(
            method="TGM+TRM, BN",
            module=nn.Sequential(core, nn.BatchNorm2d(512)),
            evidence="assumed",
            note="assumes one BatchNorm2d(512) after it, which neither text nor code has",
        ),
    ]


def _network_rows() -> list[Row]:
    """FLOPs column of the comparison on VOC12 val: ResNet-101, and the head on top of it."""
    backbone = ResNet("resnet101")
    stages = backbone.stages((512, 512))
    return [
        _row(
            table="network",
            method="ResNet-101",
            size="3x513x513",
            module=backbone,
            inputs=torch.empty(1, 3, 513, 513),
            paper_g=190.6,
            evidence="exact",
            note="deep stem, output stride 8, no classifier",
        ),
        _row(
            table="network",
            method="RecoNet",
            size="2048x64x64",
            module=RecoNet(stages, num_classes=21),
            inputs=Features(*(torch.empty(1, s.channels, s.height, s.width) for s in stages)),
            paper_g=41.9,
            evidence="assumed",
            note="assumes 3x3 2048-512 before and 1x1 1536-512 after; input 512, not 513; "
            "no classifier",
        ),
    ]


def _row(
    *,
    table: Literal["module", "network"],
    method: str,
    size: str,
    module: nn.Module,
    inputs: Tensor | Features,
    paper_g: float,
    paper_mib: float | None = None,
    evidence: Evidence,
    note: str,
) -> Row:
    rule = paper_cost(module, inputs)
    uniform = module_cost(module, inputs)
    return Row(
        table=table,
        method=method,
        size=size,
        paper_g=paper_g,
        paper_mib=paper_mib,
        rule_g=rule.flops / 1e9,
        rule_mib=rule.memory_bytes / 2**20,
        evidence=evidence,
        uniform_g=uniform.macs / 1e9,
        params_m=uniform.params / 1e6,
        note=note,
    )
