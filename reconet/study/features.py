"""Compute the features that the trials of a study share, before the first of them starts."""

import json
from collections.abc import Sequence

import torch

from reconet.cache import Store, cache_root, check_room, free_bytes
from reconet.engine import plan_features
from reconet.models.segmenter import build_model
from reconet.recipes.schema import Recipe
from reconet.study.trial import Trial
from reconet.system.files import readable_bytes
from reconet.system.progress import SILENT, Progress

HEAD = {"context", "rank", "options"}  # settings of a network that its features do not depend on
ANY_CLASSES = 2  # the stages that a network reads do not depend on their number


def build_features(
    trials: Sequence[Trial], *, device: str = "auto", progress: Progress = SILENT
) -> None:
    """Compute all features that unfinished trials will read. Says first how much disk they need."""
    recipes = distinct_recipes(
        [trial.recipe for trial in trials if trial.network is None and not trial.is_finished()]
    )
    plans = [plan_features(recipe, device=device, progress=progress) for recipe in recipes]
    if not plans:
        return
    stores = {store.directory: store for plan in plans for store in plan.stores}
    _tell_need(list(stores.values()), progress)
    check_room(stores.values())
    for plan in plans:
        plan.build(progress)


def distinct_recipes(recipes: Sequence[Recipe]) -> list[Recipe]:
    """Return one recipe for each set of features that these recipes read from the cache."""
    cached = [recipe for recipe in recipes if recipe.data.views is not None]
    networks = {recipe.model.model_dump_json(): recipe for recipe in cached}
    stages = {network: _stages_read(recipe) for network, recipe in networks.items()}
    found = {
        _features_of(recipe, stages[recipe.model.model_dump_json()]): recipe for recipe in cached
    }
    return list(found.values())


def _stages_read(recipe: Recipe) -> tuple[str, ...]:
    """Build the network without values, and ask its context: some options read more stages."""
    with torch.device("meta"):
        return build_model(recipe, ANY_CLASSES, pretrained=False).stages_read


def _features_of(recipe: Recipe, stages: tuple[str, ...]) -> str:
    """Describe what the features of a recipe depend on."""
    model, train = recipe.model, recipe.train
    fresh = model.weights is None and train.init_from is None  # then the seed makes the backbone
    return json.dumps(
        {
            "data": recipe.data.model_dump(mode="json"),
            "trunk": model.model_dump(mode="json", exclude=HEAD),
            "stages": stages,
            "from": str(train.init_from),
            "precision": train.precision,
            "seed": train.seed if fresh else None,
        }
    )


def _tell_need(stores: Sequence[Store], progress: Progress) -> None:
    """Tell how much room the features need, and how much there is."""
    needs = [store.missing_bytes() for store in stores]
    for store, need in zip(stores, needs, strict=True):
        if need:
            progress.note(f"features to compute: {_describe(store, need)}")
    total = sum(store.bytes for store in stores)
    progress.note(
        f"the trials share {readable_bytes(total)} of features in {cache_root()}: "
        f"{readable_bytes(sum(needs))} are to be computed, {readable_bytes(free_bytes())} of the "
        "disk are free"
    )


def _describe(store: Store, need: int) -> str:
    return f"{', '.join(store.parts)} of {store.count} entries, {readable_bytes(need)}"
