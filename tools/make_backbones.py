"""Write the table of docs/backbones.md, from the known backbones: `make docs`.

Every backbone is built from its configuration on meta tensors. No weights are read.
"""

import re
from pathlib import Path

import torch

from reconet.cost import module_cost
from reconet.models.backbone import make_backbone
from reconet.models.backbone.families import KNOWN
from reconet.recipes import Model

PAGE = Path(__file__).parent.parent / "docs" / "backbones.md"
SIDE = 512
HEAD = """| `model.backbone` | channels of c1..c4 | strides | parameters | MACs | licence |
|---|---|---|---|---|---|
"""


def table() -> str:
    rows = [row("resnet50", "Apache-2.0")]
    rows.append(row("mobilenet_v2", "Apache-2.0"))
    for hub_id, known in KNOWN.items():
        rows.append(row(f"hf:{hub_id}", known.licence))
    return HEAD + "".join(f"{line}\n" for line in rows)


def row(name: str, licence: str) -> str:
    """Write the row of one backbone: what it gives, and what it costs."""
    with torch.device("meta"):
        backbone = make_backbone(Model(backbone=name, output_stride=16)).eval()
        cost = module_cost(backbone, torch.empty(1, 3, SIDE, SIDE))
    channels, strides = (_listed(values) for values in (backbone.channels, backbone.strides))
    figures = f"{cost.params / 1e6:.1f} M | {cost.macs / 1e9:.1f} G"
    return f"| `{name}` | {channels} | {strides} | {figures} | {licence} |"


def _listed(values: object) -> str:
    numbers = list(values)  # type: ignore[call-overload]
    return str(numbers[0]) if len(set(numbers)) == 1 else ", ".join(map(str, numbers))


def page(text: str) -> str:
    """Replace the table between the two marks."""
    pattern = re.compile(r"(<!-- table -->\n).*?(<!-- end -->)", re.S)
    return pattern.sub(lambda m: m[1] + "\n" + table() + "\n" + m[2], text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
