"""Compute the features that the trials of a study share, before the first of them starts."""

import json
import shutil
from collections.abc import Sequence

from reconet.cache import Store, cache_root
from reconet.cache.build import SPARE_BYTES
from reconet.engine import FeaturePlan, plan_features
from reconet.engine.prepare import missing_bytes
from reconet.errors import OutputError
from reconet.models.context import CONTEXTS
from reconet.recipes.schema import Recipe
from reconet.study.trial import Trial
from reconet.system.files import readable_bytes
from reconet.system.progress import SILENT, Progress

HEAD = {"context", "rank", "options"}  # settings of a network that its features do not depend on


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
    _check_disk(plans, progress)
    for plan in plans:
        plan.build(progress)


def distinct_recipes(recipes: Sequence[Recipe]) -> list[Recipe]:
    """Return one recipe for each set of features that these recipes read from the cache."""
    found = {_features_of(recipe): recipe for recipe in recipes if recipe.data.views is not None}
    return list(found.values())


def _features_of(recipe: Recipe) -> str:
    """Describe what the features of a recipe depend on."""
    model, train = recipe.model, recipe.train
    fresh = model.weights is None and train.init_from is None  # then the seed makes the backbone
    return json.dumps(
        {
            "data": recipe.data.model_dump(mode="json"),
            "trunk": model.model_dump(mode="json", exclude=HEAD),
            "stages": CONTEXTS[model.context].info.stages,
            "from": str(train.init_from),
            "seed": train.seed if fresh else None,
        }
    )


def _check_disk(plans: Sequence[FeaturePlan], progress: Progress) -> None:
    """Tell how much the features need. Raise an error if the disk has no room for them."""
    stores = {store.directory: store for plan in plans for store in plan.stores}
    needs = {directory: missing_bytes(store) for directory, store in stores.items()}
    for directory, need in needs.items():
        if need:
            progress.note(f"features to compute: {_describe(stores[directory], need)}")
    root = cache_root()
    place = next(path for path in (root, *root.parents) if path.is_dir())
    need, free = sum(needs.values()), shutil.disk_usage(place).free
    total = sum(store.bytes for store in stores.values())
    progress.note(
        f"the trials share {readable_bytes(total)} of features in {root}: {readable_bytes(need)} "
        f"are to be computed, {readable_bytes(free)} of the disk are free"
    )
    if need and need + SPARE_BYTES > free:
        raise OutputError(
            f"the features of this study need {readable_bytes(need)} and {root} has "
            f"{readable_bytes(free)} free; set RECONET_CACHE to another disk, leave out --variants "
            "that read more stages, or run `reconet cache clear`."
        )


def _describe(store: Store, need: int) -> str:
    stages = ", ".join(name for name in store.parts if name != "label")
    return f"{stages} of {store.count} entries, {readable_bytes(need)}"
