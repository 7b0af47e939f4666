"""Choose the ranks that matter, and build the network without the others.

The importance of a rank is the change of the logits without it. On some images (the calibration)
each rank is switched off in turn. The change of the logits, less its mean over classes (which no
probability depends on), is squared and averaged. Only the layers after the fusing convolution are
computed again (models/decompose.py).

The kept ranks keep their lambda. How a core is cut to some of its ranks stands beside its weights
(`state_of_ranks` in models/context).

Dimensions: r rank.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reconet.models.decompose import decompose, low_rank_core
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.trained import TrainedNetwork, put_weights
from reconet.recipes.schema import Recipe

CORE = "context.core."


def rank_importance(model: Segmenter, images: Iterable[Tensor]) -> Tensor:
    """Return importance_r: the root mean square change of the logits without each rank."""
    total_r, count = torch.zeros(low_rank_core(model).rank).double(), 0
    for image_bchw in images:
        logits = decompose(model, image_bchw).leave_one_out()
        whole_bkij = next(logits)
        for rank, without_bkij in enumerate(logits):
            change_bkij = without_bkij - whole_bkij
            change_bkij -= change_bkij.mean(1, keepdim=True)
            total_r[rank] += change_bkij.cpu().double().square().mean()
        count += 1
    return (total_r / max(1, count)).sqrt()


def best_ranks(importance_r: Tensor, count: int) -> tuple[int, ...]:
    """Return the most important ranks, in the order that they have in the network."""
    best = importance_r.argsort(descending=True, stable=True)[:count]
    return tuple(sorted(best.tolist()))


def keep_ranks(trained: TrainedNetwork, kept: Sequence[int]) -> TrainedNetwork:
    """Return the same network with only some of its ranks, each with its old lambda."""
    model, core = trained.model, low_rank_core(trained.model)
    rest = {k: v for k, v in model.state_dict().items() if not k.startswith(CORE)}
    state = rest | {CORE + name: value for name, value in core.state_of_ranks(kept).items()}
    recipe = _pruned_recipe(trained.info.recipe, len(kept), core.pruned_options)
    result = build_model(recipe, len(trained.info.classes), pretrained=False)
    put_weights(result, state, Path("the network before"))
    device = model.classify.weight.device
    return TrainedNetwork(model=result.eval().to(device), info=replace(trained.info, recipe=recipe))


def _pruned_recipe(recipe: Recipe, rank: int, pruned: Mapping[str, Any]) -> Recipe:
    options = {key: value for key, value in recipe.model.options.items() if key != "rank"}
    changed = {"rank": rank, "options": options | dict(pruned)}
    return recipe.model_copy(update={"model": recipe.model.model_copy(update=changed)})
