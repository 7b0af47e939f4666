"""Write docs/contexts.md, the table of all contexts, from the code: `make docs`.

Title, paper, idea, stages and options come from the ContextInfo of each context. Costs are counted
on meta tensors.
"""

import inspect
import re
from functools import cache
from pathlib import Path

import torch

from reconet.cost import module_cost
from reconet.explain import attention_maps, has_ranks, shows_maps
from reconet.models.backbone import ResNet
from reconet.models.context import CONTEXTS, ContextModule
from reconet.models.features import Features, Stages
from reconet.models.head import classifier
from reconet.models.segmenter import create_model

PAGE = Path(__file__).parent.parent / "docs" / "contexts.md"
CLASSES = 21
INTRODUCTION = """# Contexts

```
reconet train voc12/reconet_r101 --set model.context=danet
reconet train voc12/reconet_r101 --set model.context=emanet --set model.options.bases=32
```

A context stands between backbone and classifier. Any recipe takes any of them. Each is the method's
published head, with [options](#options). Costs are those in use, for one 512 x 512 image on
ResNet-101 at output stride 8, by the uniform rule of [cost.md](cost.md).

- *Head* is all that the method adds to the backbone, with a classifier of 21 classes.
- *Core* is the module alone on a 512 x 64 x 64 map, which `reconet bench module` measures.
- *Needs* is what goes beyond c4 and gradients.
- *Explain* is what [`reconet explain`](explain.md) draws.

| key | method | head | core | needs | explain |
|---|---|---|---|---|---|
"""
IDEAS = """
## Methods

"""
OPTIONS = """
## Options

Defaults are in brackets. All but `plain` also have `dropout` before the classifier. It is 0.1 if it
is not listed.

"""


def page() -> str:
    """Write the whole page."""
    names = sorted(CONTEXTS)
    drawn = {name: explained(name) for name in names}
    with torch.device("meta"):
        rows = [row(name, drawn[name]) for name in names]
    ideas, options = (
        [idea(name) for name in names],
        [line for name in names for line in options_of(name)],
    )
    return INTRODUCTION + _lines(rows) + IDEAS + _lines(ideas) + OPTIONS + _lines(options)


def row(name: str, drawn: str) -> str:
    """Write the row of one context: method, costs, needs and what is drawn of it."""
    kind = CONTEXTS[name]
    stages = _stages(512)
    features = Features(*(torch.empty(1, s.channels, s.height, s.width) for s in stages))
    context = kind(stages, num_classes=CLASSES).eval()
    head = module_cost(context, features)
    map_bdhw = context(features).map_bdhw
    last = module_cost(classifier(context.out_channels, CLASSES), map_bdhw)
    core = "-"
    if context.core is not None:
        alone = module_cost(context.core, torch.empty(1, 512, 64, 64))
        core = _cost(alone.params, alone.macs, digits=5)
    file = kind.__module__.replace(".", "/") + ".py"
    return _row(
        f"[`{name}`](../{file})",
        kind.info.title,
        _cost(head.params + last.params, head.macs + last.macs, digits=2),
        core,
        ", ".join(needs(name)) or "-",
        drawn,
    )


def needs(name: str) -> list[str]:
    """List what a context needs beyond c4 and gradients, with its default options."""
    kind, stages = CONTEXTS[name], _stages(512)
    context = kind(stages, num_classes=CLASSES)
    features = Features(*(torch.empty(2, s.channels, s.height, s.width) for s in stages))
    found = [stage for stage in kind.info.stages if stage != "c4"]
    if context(features).extra:
        found.append("a loss of its own")
    if kind.after_step is not ContextModule.after_step:
        found.append("state that moves without a gradient")
    if _shapes(kind(_stages(640), num_classes=CLASSES)) != _shapes(context):
        found.append("weights of the size of the crop")
    return found


def explained(name: str) -> str:
    """Say what `reconet explain` draws of a context: ranks, maps, what a point looks at, or -."""
    kind = CONTEXTS[name]
    if has_ranks(kind) or not shows_maps(kind):
        return "ranks" if has_ranks(kind) else "-"
    classes = ("one", "two")
    model = create_model(name, backbone="resnet18", num_classes=len(classes), width=0.125).eval()
    image_bchw = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    maps = attention_maps(model, name, image_bchw, (0.5, 0.5), classes)
    return "point" if maps.from_point else "maps"


def idea(name: str) -> str:
    """Write what a context does, and where it was published."""
    info = CONTEXTS[name].info
    where = re.sub(r',? ".+"', "", info.paper)  # the file has the title
    return f"- `{name}`: {info.idea}" + (f" ({where})" if where else "")


def options_of(name: str) -> list[str]:
    """Write a line for a context, and one below it for each option but the usual dropout."""
    parameters = inspect.signature(CONTEXTS[name]).parameters
    lines = [
        f"  - `{key}` ({_plain(parameters[key].default)}): {text}"
        for key, text in CONTEXTS[name].info.options.items()
        if (text, parameters[key].default) != ("before the classifier", 0.1)
    ]
    return [f"- **{name}**", *lines] if lines else []


@cache
def _stages(crop: int) -> Stages:
    return ResNet("resnet101").stages((crop, crop))


def _shapes(context: ContextModule) -> list[torch.Size]:
    return [p.shape for p in context.parameters()]


def _plain(value: object) -> str:
    """Write a default as `--set` takes it."""
    if value is None:
        return "-"
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cost(params: int, macs: int, digits: int) -> str:
    return f"{params / 1e6:.2f} M, {macs / 1e9:.{digits}f} G"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _lines(rows: list[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(page())
