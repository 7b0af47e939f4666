"""Compute the attention of contexts that show maps, in one recorded pass of the network."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from reconet.errors import RecipeError
from reconet.models.context import CONTEXTS, ContextModule
from reconet.models.context.attention_maps import AttentionMaps, Point, RecordedPass
from reconet.models.segmenter import Segmenter


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
