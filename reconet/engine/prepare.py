"""Prepare the frozen part of a network, and the cached features that trainings share."""

from dataclasses import dataclass

import torch

from reconet.cache import Store, fit_projection
from reconet.data import complete_recipe, open_split
from reconet.data.dataset import Dataset
from reconet.engine.inputs import (
    FeatureRequest,
    describe_features,
    training_request,
    training_views,
    validation_request,
)
from reconet.engine.setup import (
    augmentation,
    check_labels,
    check_precision,
    check_views,
    make_state,
)
from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes, pick_device
from reconet.system.progress import SILENT, Progress


def fit_trunk(
    model: Segmenter,
    recipe: Recipe,
    train_set: Dataset,
    processes: Processes,
    progress: Progress = SILENT,
) -> None:
    """Fit the projection of a fresh network, if it has one."""
    if model.project is None:
        return
    split = recipe.data.project_split
    if split is not None:
        train_set = open_split(recipe.data, split)
    drawn = augmentation(recipe)
    fit_projection(
        model,
        training_views(recipe, drawn, train_set),
        drawn,
        recipe.data.view_seed,
        processes,
        about=describe_features(recipe, train_set, model.output_stride),
        progress=progress,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class FeaturePlan:
    """The features that a training will read, and the network that computes them."""

    model: Segmenter
    requests: tuple[FeatureRequest, ...]
    stores: tuple[Store, ...]
    processes: Processes

    def build(self, progress: Progress = SILENT) -> None:
        """Check the stores, and compute what they lack."""
        for request in self.requests:
            request.open(self.model, self.processes, progress)


def plan_features(
    recipe: Recipe, *, device: str = "auto", progress: Progress = SILENT
) -> FeaturePlan:
    """Find the stores of a training's features. A projection is fitted, if there is one."""
    processes = Processes.single(pick_device(device))
    recipe = complete_recipe(recipe)
    check_views(recipe)
    check_precision(recipe, processes)
    train_set = open_split(recipe.data, recipe.data.train_split)
    val_set = open_split(recipe.data, recipe.data.val_split)
    check_labels(train_set, val_set)
    torch.manual_seed(recipe.train.seed)
    model = make_state(
        recipe,
        len(train_set.info.classes),
        processes,
        fresh=True,
        fit=lambda model: fit_trunk(model, recipe, train_set, processes, progress),
    ).model
    requests = (
        training_request(recipe, augmentation(recipe), model, train_set),
        validation_request(recipe, model, val_set),
    )
    stores = tuple(store for request in requests for store in request.find(model))
    return FeaturePlan(model=model, requests=requests, stores=stores, processes=processes)
