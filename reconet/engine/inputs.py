"""Feed a training: batches to learn from, and scores.

Images are read and augmented anew in every step. Features of a frozen backbone are computed once,
and read from the cache (reconet/cache).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from reconet.cache import (
    FeatureBatch,
    Store,
    Wanted,
    cache_root,
    check_room,
    count_feature_confusion,
    feature_batches,
    fit_projection,
    open_features,
    want_views,
    want_whole,
)
from reconet.data import open_split
from reconet.data.dataset import Dataset
from reconet.data.loader import Batch, batches
from reconet.data.order import BatchOrder
from reconet.data.transforms import Augmentation
from reconet.engine.setup import check_start, make_state, open_labelled
from reconet.evaluation import no_labels_error
from reconet.evaluation.confusion import count_model_confusion
from reconet.evaluation.metrics import benchmark_scores, named_scores
from reconet.inference.protocol import Protocol
from reconet.models.liveness import mean_liveness, record_liveness
from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Recipe
from reconet.system.distributed import Processes, pick_device
from reconet.system.progress import SILENT, Progress, Silent
from reconet.system.readable import counted


class Validation(NamedTuple):
    """The scores of one validation."""

    values: dict[str, float]  # by their names in the log
    iou_k: Tensor
    count_kk: Tensor
    loss: float | None = None  # not with cached features


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Images, or features of a frozen backbone if there are stores of them."""

    recipe: Recipe
    train_set: Dataset
    val_set: Dataset
    processes: Processes
    train_stores: Sequence[Store] = ()
    val_stores: Sequence[Store] = ()

    def batches(self, start: int, steps: int) -> Iterable[Batch | FeatureBatch]:
        """Yield this process's share of the steps from `start` to `steps` - 1."""
        data, settings, processes = self.recipe.data, self.recipe.train, self.processes
        if self.train_stores:
            order = BatchOrder(
                images=len(self.train_set),
                seed=settings.seed,
                batch=settings.batch,
                start=start,
                steps=steps,
                rank=processes.rank,
                processes=processes.size,
            )
            names = [self.train_set.name(index) for index in range(len(self.train_set))]
            return feature_batches(self.train_stores, order, names)
        return batches(
            self.train_set,
            Augmentation.of(data),
            seed=settings.seed,
            batch=settings.batch,
            steps=steps,
            start=start,
            rank=processes.rank,
            processes=processes.size,
            workers=data.workers,
            on_error=data.on_error,
            keep=False,
            pin=processes.device.type == "cuda",
        )

    def validate(
        self, model: Segmenter, stop: Callable[[], bool], progress: Progress
    ) -> Validation:
        """Score a network, and measure whether its attention is alive.

        Raises StoppedError if `stop` asks for it, and DataError if there is nothing to score.
        """
        data, dataset, processes = self.recipe.data, self.val_set, self.processes
        protocol = Protocol.in_training(data)
        counter = _StatusProgress(progress, processes.share_of(len(dataset)))
        with record_liveness(model.context) as samples:
            if self.val_stores:
                confusion = count_feature_confusion(
                    model, self.val_stores, dataset, processes, protocol, stop, counter
                )
            else:
                confusion = count_model_confusion(
                    model,
                    dataset,
                    processes,
                    protocol=protocol,
                    workers=data.workers,
                    on_error=data.on_error,
                    with_loss=True,
                    stop=stop,
                    progress=counter,
                )
        count_kk, info = confusion.count_kk, dataset.info
        processes.raise_together(None if count_kk.any() else no_labels_error(dataset))
        values = named_scores(count_kk, info.name, info.classes)
        liveness = mean_liveness(samples)
        if liveness is not None:
            values |= liveness._asdict()
        if confusion.skipped:
            images = counted(confusion.skipped, "image")
            progress.note(f"validation left out {images} that cannot be read")
            values["skipped"] = confusion.skipped
        iou_k = benchmark_scores(count_kk, info.name, info.classes).iou_k
        return Validation(values, iou_k, count_kk, confusion.loss)


class _StatusProgress(Silent):
    """Shows a task as the status of another task that is already being counted."""

    def __init__(self, outer: Progress, total: int) -> None:
        self._outer, self._done, self._total = outer, 0, total

    def advance(self, count: int = 1) -> None:
        self._done += count
        self._outer.status(f"validate {self._done} of {self._total}")


def open_inputs(
    recipe: Recipe,
    model: Segmenter,
    train_set: Dataset,
    val_set: Dataset,
    processes: Processes,
    progress: Progress = SILENT,
) -> Inputs:
    """Open what a recipe asks for: images, or cached features if it says how many views."""
    train_stores: Sequence[Store] = ()
    val_stores: Sequence[Store] = ()
    if recipe.data.views is not None:
        local = processes.sharing(cache_root())  # each machine fills a cache of its own
        with processes.together():
            views, whole = want_views(recipe, model, train_set), want_whole(recipe, model, val_set)
            local.run_on_first(lambda: check_room(one.store for one in (*views, *whole)))
            train_stores = open_features(views, model, local, progress)
            val_stores = open_features(whole, model, local, progress)
    return Inputs(
        recipe=recipe,
        train_set=train_set,
        val_set=val_set,
        processes=processes,
        train_stores=train_stores,
        val_stores=val_stores,
    )


def fit_trunk(
    model: Segmenter, recipe: Recipe, train_set: Dataset, processes: Processes, progress: Progress
) -> None:
    """Fit the projection of a fresh network, if it has one."""
    if model.project is not None:
        split = recipe.data.project_split
        fitted_to = train_set if split is None else open_split(recipe.data, split)
        fit_projection(model, recipe, fitted_to, processes, progress)


@dataclass(frozen=True, kw_only=True, eq=False)
class FeaturePlan:
    """The features that a training will read, and the network that computes them."""

    model: Segmenter
    wanted: tuple[Wanted, ...]
    processes: Processes

    @property
    def stores(self) -> tuple[Store, ...]:
        """Return the stores, which may not exist yet."""
        return tuple(one.store for one in self.wanted)

    def build(self, progress: Progress = SILENT) -> None:
        """Check the stores, and compute what they lack."""
        open_features(self.wanted, self.model, self.processes, progress)


def plan_features(
    recipe: Recipe, *, device: str = "auto", progress: Progress = SILENT
) -> FeaturePlan:
    """Find the stores of a training's features. A projection is fitted, if there is one."""
    processes = Processes.single(pick_device(device))
    recipe = check_start(recipe, processes)
    train_set, val_set = open_labelled(recipe)
    torch.manual_seed(recipe.train.seed)
    model = make_state(
        recipe,
        len(train_set.info.classes),
        processes,
        fresh=True,
        fit=lambda model: fit_trunk(model, recipe, train_set, processes, progress),
    ).model
    wanted = (*want_views(recipe, model, train_set), *want_whole(recipe, model, val_set))
    return FeaturePlan(model=model, wanted=wanted, processes=processes)
