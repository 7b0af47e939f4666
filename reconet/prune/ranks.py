"""Choose the ranks that matter, and build the network without the others.

The importance of a rank is the change of the logits without it. On some images (the calibration)
each rank is switched off in turn. The change of the logits, less its mean over classes (which no
probability depends on), is squared and averaged. Only the layers after the fusing convolution are
computed again (models/decompose.py).

The kept ranks keep their lambda. Softmax alone would make them sum to 1 again and so enlarge the
attention. Their old sum is stored beside them (`weight_sum`, option `pruned`).

Dimensions: r rank, n the length of one axis.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from reconet.models.decompose import decompose, reconstruction
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.trained import TrainedNetwork, put_weights
from reconet.recipes.schema import Recipe

CORE = "context.core."
AXES = ("channel", "row", "column")


def rank_importance(model: Segmenter, images: Iterable[Tensor]) -> Tensor:
    """Return importance_r: the root mean square change of the logits without each rank."""
    total_r, count = torch.zeros(reconstruction(model).rank_logits_r.numel()).double(), 0
    for image_bchw in images:
        logits = decompose(model, image_bchw).leave_one_out()
        whole_bkij = next(logits)
        for rank, without_bkij in enumerate(logits):
            change_bkij = without_bkij - whole_bkij
            change_bkij -= change_bkij.mean(1, keepdim=True)
            total_r[rank] += change_bkij.double().square().mean().cpu()
        count += 1
    return (total_r / max(1, count)).sqrt()


def best_ranks(importance_r: Tensor, count: int) -> tuple[int, ...]:
    """Return the most important ranks, in the order that they have in the network."""
    best = importance_r.argsort(descending=True, stable=True)[:count]
    return tuple(sorted(best.tolist()))


def keep_ranks(trained: TrainedNetwork, kept: Sequence[int]) -> TrainedNetwork:
    """Return the same network with only some of its ranks, each with its old lambda."""
    model = trained.model
    core = reconstruction(model)
    state = dict(model.state_dict())
    for axis in AXES:
        name = f"{CORE}{axis}.linear.weight"
        by_rank = state[name].unflatten(0, (core.rank_logits_r.numel(), -1))
        state[name] = by_rank[list(kept)].flatten(0, 1)
    state[f"{CORE}rank_logits_r"] = core.rank_logits_r.detach()[list(kept)]
    weight_r = core.weights().detach()
    state[f"{CORE}weight_sum"] = weight_r[list(kept)].sum()
    recipe = _pruned_recipe(trained.info.recipe, len(kept))
    result = build_model(recipe, len(trained.info.classes), pretrained=False)
    put_weights(result, state, Path("the network before"))
    model = result.eval().to(weight_r.device)
    return TrainedNetwork(model=model, info=replace(trained.info, recipe=recipe))


def _pruned_recipe(recipe: Recipe, rank: int) -> Recipe:
    options = {key: value for key, value in recipe.model.options.items() if key != "rank"}
    changed = {"rank": rank, "options": options | {"pruned": True}}
    return recipe.model_copy(update={"model": recipe.model.model_copy(update=changed)})
