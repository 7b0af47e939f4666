"""Writes docs/contexts.md, the table of all contexts, from the code: `make docs`.

Paper and idea come from the docstring of each file in reconet/models/context/: its first paragraph
is `Title: Authors, "Paper" (venue year).`, the first sentence of its second one is the idea. Costs
are counted, and what a method needs is found out, on meta tensors.
"""

import inspect
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from reconet.cost.counter import module_cost
from reconet.models.backbone import ResNet
from reconet.models.context import CONTEXTS
from reconet.models.context.base import ContextModule
from reconet.models.features import Features, Stages
from reconet.models.head import classifier

PAGE = Path(__file__).parent / "contexts.md"
CLASSES = 21
INTRODUCTION = """# Contexts

What can stand between backbone and classifier. Any recipe takes any of them, by
`--set model.context=danet`; options are set as `--set model.options.<name>=...`. Each is the
method's published head; its options are in its file.

Costs are those in use, for one 512 x 512 image on ResNet-101 at output stride 8, counted by the
uniform rule of [cost.md](cost.md). *Head* is all that the method adds to the backbone, a classifier
of 21 classes included. *Core* is the module alone on a 512 x 64 x 64 map, for methods that have
one: what `reconet bench module` measures. *Needs* is what goes beyond c4 and gradients.

`make docs` writes this page from the code. [add-a-context.md](add-a-context.md) is about new rows.

| key | method | idea | head | core | needs |
|---|---|---|---|---|---|
"""


class Watched:
    """Features that remember which of them were looked at."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self.used: set[str] = set()

    def __getattr__(self, name: str) -> Tensor:
        self.used.add(name)
        value: Tensor = getattr(self.features, name)
        return value


class Source(NamedTuple):
    """What a context's file says about it."""

    title: str
    paper: str
    idea: str


def page() -> str:
    with torch.device("meta"):
        return INTRODUCTION + "".join(f"{row(name)}\n" for name in sorted(CONTEXTS))


def row(name: str) -> str:
    source = read_docstring(CONTEXTS[name])
    stages = _stages(512)
    features = _features(stages)
    context = CONTEXTS[name](stages, num_classes=CLASSES).eval()
    head = module_cost(context, features)
    map_bdhw = context(features).map_bdhw
    last = module_cost(classifier(context.out_channels, CLASSES), map_bdhw)
    core = "-"
    if context.core is not None:
        alone = module_cost(context.core, torch.empty(1, 512, 64, 64))
        core = _cost(alone.params, alone.macs, digits=5)
    cells = [
        f"[`{name}`](../{_file(CONTEXTS[name])})",
        f"{source.title}: {source.paper}" if source.paper else source.title,
        source.idea,
        _cost(head.params + last.params, head.macs + last.macs, digits=2),
        core,
        ", ".join(needs(name)) or "-",
    ]
    return f"| {' | '.join(cells)} |"


def needs(name: str) -> list[str]:
    """Beyond c4 and a gradient: found by a forward pass in training."""
    stages = _stages(512)
    watched = Watched(_features(stages))
    context = CONTEXTS[name](stages, num_classes=CLASSES)
    extra = context(watched).extra
    found = sorted(watched.used - {"c4"})
    if extra:
        found.append("a loss of its own")
    if type(context).after_step is not ContextModule.after_step:
        found.append("state that moves without a gradient")
    larger = CONTEXTS[name](_stages(640), num_classes=CLASSES)
    if _shapes(larger) != _shapes(context):
        found.append("weights of the size of the crop")
    return found


def read_docstring(context: type[ContextModule]) -> Source:
    paragraphs = (inspect.getdoc(inspect.getmodule(context)) or "").split("\n\n")
    first, second = (" ".join(p.split()) for p in paragraphs[:2])
    match = re.fullmatch(r"(.+?): (.+?), \"(.+)\" \((.+)\)\.", first)
    idea = re.split(r"(?<=\.) ", second)[0]
    if match is None:
        return Source(first.removesuffix("."), "", idea)
    title, authors, paper, venue = match.groups()
    return Source(title, f'{authors}, "{paper}", {venue}', idea)


@cache
def _stages(crop: int) -> Stages:
    return ResNet("resnet101").stages((crop, crop))


def _features(stages: Stages) -> Features:
    return Features(*(torch.empty(1, s.channels, s.height, s.width) for s in stages))


def _shapes(context: ContextModule) -> list[torch.Size]:
    return [p.shape for p in context.parameters()]


def _file(context: type[ContextModule]) -> str:
    return context.__module__.replace(".", "/") + ".py"


def _cost(params: int, macs: int, digits: int) -> str:
    return f"{params / 1e6:.2f} M, {macs / 1e9:.{digits}f} G"


if __name__ == "__main__":
    PAGE.write_text(page())
