"""One row of a cost table: the paper's number beside two of ours."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from reconet.cost.counter import module_cost
from reconet.cost.paper.counting_rule import FunctionKind, paper_cost
from reconet.models.features import Features

# exact: reproduced without any free choice.
# assumed: the printed digits, if the assumption in the note is made.
Evidence = Literal["exact", "assumed", "not reproduced"]
FIT = "a fit exists, not an identification"  # found by trying many configurations


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """One method: the paper's cost, the same by its rule, and the uniform count.

    Units are G (1e9), MiB and M (1e6).
    """

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


def make_paper_row(
    *,
    table: Literal["module", "network"],
    method: str,
    size: str,
    module: nn.Module,
    inputs: Tensor | Features,
    paper_g: float,
    note: str,
    paper_mib: float | None = None,
    evidence: Evidence = "not reproduced",
    counted: nn.Module | None = None,
    as_layers: Collection[FunctionKind] = (),
    count: Literal["layers", "convolutions", "uniform"] = "layers",
) -> PaperRow:
    """Count a module by both rules.

    The paper's rule counts `counted` instead of `module` where it misses a part of what runs.
    """
    rule = paper_cost(counted or module, inputs, as_layers=as_layers)
    uniform = module_cost(module.eval(), inputs)
    flops = {"layers": rule.flops, "convolutions": rule.convolution_macs, "uniform": uniform.macs}
    return PaperRow(
        table=table,
        method=method,
        size=size,
        paper_g=paper_g,
        paper_mib=paper_mib,
        rule_g=flops[count] / 1e9,
        rule_mib=rule.memory_bytes / 2**20,
        evidence=evidence,
        uniform_g=uniform.macs / 1e9,
        params_m=uniform.params / 1e6,
        note=note,
    )
