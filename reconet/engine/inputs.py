"""Feed a training: batches to learn from, and a confusion matrix to score by.

Images are read and augmented anew in every step. Features of a frozen backbone are computed once,
and read from the cache (reconet/cache).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol as Interface

from reconet.cache import (
    LABEL,
    FeatureBatch,
    Part,
    Store,
    StoreGroup,
    TrainingViews,
    WholeImages,
    cache_root,
    check_room,
    count_feature_confusion,
    feature_batches,
    find_store,
    open_features,
)
from reconet.data.dataset import Dataset
from reconet.data.loader import Batch, batches
from reconet.data.order import BatchOrder
from reconet.data.transforms import Augmentation
from reconet.engine.stop import StopSwitch
from reconet.evaluation.confusion import Confusion, count_model_confusion
from reconet.inference.protocol import Protocol
from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Model, Recipe
from reconet.system.distributed import Processes
from reconet.system.hardware import Precision
from reconet.system.progress import Progress


class Inputs(Interface):
    """Where a training gets its batches and its validations from."""

    def batches(self, start: int, steps: int) -> Iterable[Batch | FeatureBatch]:
        """Yield this process's share of the steps from `start` to `steps` - 1."""
        ...

    def count_confusion(self, model: Segmenter, stop: StopSwitch, progress: Progress) -> Confusion:
        """Score a network on the validation split."""
        ...


@dataclass(frozen=True, kw_only=True)
class ImageInputs:
    """Images, augmented anew in every step."""

    recipe: Recipe
    augmentation: Augmentation
    train_set: Dataset
    val_set: Dataset
    processes: Processes

    def batches(self, start: int, steps: int) -> Iterable[Batch]:
        """Read and augment images."""
        data, settings = self.recipe.data, self.recipe.train
        return batches(
            self.train_set,
            self.augmentation,
            seed=settings.seed,
            batch=settings.batch,
            steps=steps,
            start=start,
            rank=self.processes.rank,
            processes=self.processes.size,
            workers=data.workers,
            on_error=data.on_error,
            keep=False,
            pin=self.processes.device.type == "cuda",
        )

    def count_confusion(self, model: Segmenter, stop: StopSwitch, progress: Progress) -> Confusion:
        """Show whole images to the network."""
        data = self.recipe.data
        return count_model_confusion(
            model,
            self.val_set,
            self.processes,
            protocol=Protocol.in_training(data),
            workers=data.workers,
            on_error=data.on_error,
            with_loss=True,
            stop=stop,
            progress=progress,
        )


@dataclass(frozen=True, kw_only=True)
class CachedInputs:
    """Features of a frozen backbone, from the cache."""

    recipe: Recipe
    train_set: Dataset
    val_set: Dataset
    processes: Processes
    train_store: StoreGroup
    val_store: StoreGroup

    def batches(self, start: int, steps: int) -> Iterable[FeatureBatch]:
        """Read features from the cache."""
        settings = self.recipe.train
        order = BatchOrder(
            images=len(self.train_set),
            seed=settings.seed,
            batch=settings.batch,
            start=start,
            steps=steps,
            rank=self.processes.rank,
            processes=self.processes.size,
        )
        names = [self.train_set.name(index) for index in range(len(self.train_set))]
        return feature_batches(self.train_store, order, names)

    def count_confusion(self, model: Segmenter, stop: StopSwitch, progress: Progress) -> Confusion:
        """Run the head alone on the features of whole images."""
        protocol = Protocol.in_training(self.recipe.data)
        return count_feature_confusion(
            model, self.val_store, self.val_set, self.processes, protocol, stop, progress
        )


def open_inputs(
    recipe: Recipe,
    augmentation: Augmentation,
    model: Segmenter,
    train_set: Dataset,
    val_set: Dataset,
    processes: Processes,
    progress: Progress,
) -> Inputs:
    """Open what a recipe asks for: images, or cached features if it says how many views."""
    if recipe.data.views is None:
        return ImageInputs(
            recipe=recipe,
            augmentation=augmentation,
            train_set=train_set,
            val_set=val_set,
            processes=processes,
        )
    views = training_request(recipe, augmentation, model, train_set)
    whole = validation_request(recipe, model, val_set)
    local = processes.sharing(cache_root())  # each machine fills a cache of its own
    with processes.together():
        local.run_on_first(lambda: check_room([*views.find(model), *whole.find(model)]))
        train_store = views.open(model, local, progress)
        val_store = whole.open(model, local, progress)
    return CachedInputs(
        recipe=recipe,
        train_set=train_set,
        val_set=val_set,
        processes=processes,
        train_store=train_store,
        val_store=val_store,
    )


@dataclass(frozen=True, kw_only=True)
class FeatureRequest:
    """The features of one split that a training asks the cache for, and labels of its views."""

    source: TrainingViews | WholeImages
    parts: dict[str, Part]
    facts: dict[str, object]  # that name the store, beside the network and the images
    about: dict[str, object]  # that only describe it, for people
    precision: Precision  # that the backbone computes in
    labels: "FeatureRequest | None" = None

    def find(self, model: Segmenter) -> tuple[Store, ...]:
        """Return the stores of these features, which may not exist yet."""
        stores = (
            find_store(self.source, model, parts, self.facts, self.precision)
            for parts in self._parts_of_stores()
        )
        return (*stores, *(self.labels.find(model) if self.labels else ()))

    def open(self, model: Segmenter, processes: Processes, progress: Progress) -> StoreGroup:
        """Return the stores, complete."""
        stores = [
            open_features(
                self.source,
                model,
                parts,
                self.facts,
                processes,
                precision=self.precision,
                about=self.about,
                progress=progress,
            )
            for parts in self._parts_of_stores()
        ]
        if (request := self.labels) is not None:
            stores += request.open(model, processes, progress).stores
        return StoreGroup(tuple(stores))

    def _parts_of_stores(self) -> list[dict[str, Part]]:
        """Give earlier stages a store each: they are large, and most contexts read only c4."""
        early = {name: part for name, part in self.parts.items() if name in ("c1", "c2", "c3")}
        rest = {name: part for name, part in self.parts.items() if name not in early}
        return [rest, *({name: part} for name, part in early.items())]


def training_request(
    recipe: Recipe, augmentation: Augmentation, model: Segmenter, train_set: Dataset
) -> FeatureRequest:
    """Return the features that a network learns from."""
    views = training_views(recipe, augmentation, train_set)
    facts: dict[str, object] = {"augmentation": augmentation.key(), "seed": views.seed}
    about = describe_features(recipe, train_set, model.output_stride) | {"views": views.views}
    # The dataset and its options say what the numbers in masks mean.
    means = {"dataset": recipe.data.name, "options": recipe.data.options}
    labels = FeatureRequest(
        source=replace(views, labels=True),
        parts={LABEL: Part(dtype="uint8", shape=recipe.data.crop)},
        facts={"kind": "labels", **facts, **means},
        about={key: value for key, value in about.items() if key not in Model.model_fields},
        precision="fp32",
    )
    return FeatureRequest(
        source=views,
        parts=feature_parts(model, recipe.data.crop),
        facts={"kind": "views", **facts},
        about=about,
        precision=recipe.train.precision,
        labels=labels,
    )


def validation_request(recipe: Recipe, model: Segmenter, val_set: Dataset) -> FeatureRequest:
    """Return the features that a network is scored on."""
    side = recipe.data.base_size
    return FeatureRequest(
        source=WholeImages(dataset=val_set, base_size=side),
        parts=feature_parts(model, (side, side), training=False),
        facts={"kind": "whole images", "base_size": side},
        about=describe_features(recipe, val_set, model.output_stride),
        precision=recipe.train.precision,
    )


def describe_features(recipe: Recipe, dataset: Dataset, stride: int) -> dict[str, object]:
    """Describe images and network for people who list the cache."""
    data, model = recipe.data, recipe.model
    return {
        "dataset": data.name,
        "split": dataset.split,
        "root": None if data.root is None else str(data.root.absolute()),
        "images": len(dataset),
        "crop": list(data.crop),
        "backbone": model.backbone,
        "weights": model.weights,
        "output_stride": stride,
        "project": model.project,
    }


def training_views(recipe: Recipe, augmentation: Augmentation, dataset: Dataset) -> TrainingViews:
    """Return the views of a recipe's training images."""
    data = recipe.data
    return TrainingViews(
        dataset=dataset, augmentation=augmentation, seed=data.view_seed, views=data.views or 1
    )


def feature_parts(
    model: Segmenter, size: tuple[int, int], *, training: bool = True
) -> dict[str, Part]:
    """Return the stages that a network reads beyond its trunk, for images of `size` at most."""
    stages = model.backbone.stages(size)._asdict()
    names = set(model.stages_read)
    if training and model.aux is not None:
        names.add("c3")
    parts = {}
    for name in sorted(names):
        spec = stages[name]
        projected = name == "c4" and model.project is not None
        channels = model.project.out_channels if projected and model.project else spec.channels
        parts[name] = Part(dtype="float16", shape=(channels, spec.height, spec.width))
    return parts
