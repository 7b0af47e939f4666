"""Explain a context without ranks by the attention that it shows."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from reconet.errors import RecipeError
from reconet.explain import draw
from reconet.explain.draw import Content, Panel, value_range
from reconet.models.context import CONTEXTS, ContextModule
from reconet.models.context.base import AttentionMaps, Point, RecordedPass
from reconet.models.segmenter import Segmenter

PANELS_PER_ROW = 6


def explain_maps(
    model: Segmenter,
    name: str,
    image_bchw: Tensor,
    panels: Sequence[Panel],
    classes: Sequence[str],
    point: Point | None,
) -> Content:
    """Draw the maps of a context, those of one point if it compares positions."""
    at = point or (0.5, 0.5)
    found = attention_maps(model, name, image_bchw, at, classes)
    if point is not None and not found.from_point:
        raise RecipeError(f"--point: {name} does not look from a point.")
    mark = at if found.from_point else None
    every = [panels[0]._replace(mark=mark), *panels[1:]]
    every += [Panel(name, map_hw, mark) for name, map_hw in found.maps]
    ranges = [(name, *value_range(values)) for name, values in (*found.maps, *found.gates)]
    values: dict[str, Any] = {
        "maps": [{"name": name, "least": low, "most": high} for name, low, high in ranges]
    }
    texts = [(name, f"{low:.3g}", f"{high:.3g}") for name, low, high in ranges]
    return Content(
        panels=[every[k : k + PANELS_PER_ROW] for k in range(0, len(every), PANELS_PER_ROW)],
        figures={"gates.png": draw.bars(found.gates)} if found.gates else {},
        values=values | ({"point": list(at)} if found.from_point else {}),
        shown={"about": found.description, "ranges": texts},
        finding="; ".join(f"{name} {low} to {high}" for name, low, high in texts),
    )


@torch.no_grad()
def attention_maps(
    model: Segmenter, name: str, image_bchw: Tensor, point: Point, classes: Sequence[str]
) -> AttentionMaps:
    """Run a network on one image, and return the attention that its context shows."""
    context = model.context
    inputs: dict[nn.Module, list[Tensor]] = {}

    def record(part: nn.Module, given: tuple[Any, ...]) -> None:
        if given and isinstance(given[0], Tensor):
            inputs.setdefault(part, []).append(given[0])

    hooks = [part.register_forward_pre_hook(record) for part in context.modules()]
    try:
        model.coarse(image_bchw)
    finally:
        for hook in hooks:
            hook.remove()
    maps = context.attention_maps(RecordedPass(inputs, point, classes))
    if maps is None:
        able = [key for test in (has_ranks, shows_maps) for key in CONTEXTS if test(CONTEXTS[key])]
        names = ", ".join(able)
        raise RecipeError(f"context {name!r} has no attention to explain; these have: {names}.")
    return maps


def shows_maps(context: type[ContextModule]) -> bool:
    return context.attention_maps is not ContextModule.attention_maps


def has_ranks(context: type[ContextModule]) -> bool:
    return context.low_rank_head is not ContextModule.low_rank_head
