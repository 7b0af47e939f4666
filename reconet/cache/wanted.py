"""Name the stores that a training reads by all that their entries depend on.

The cache is a folder of stores, one for each stage of the backbone that a network reads, and one
for the labels of augmented views. The name of a store is a digest of the weights and layers of
backbone and projection, the stage, the augmentation or the size of whole images, and the content of
the images. So trainings and studies that agree in these share one store, and a change of any of
them finds another. Labels depend on the content of the masks and not on the network: a corrected
mask changes no feature.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from reconet.cache.store import FORMAT, LABEL, Store
from reconet.data.dataset import Dataset, identify_image, identify_label
from reconet.data.order import random_stream
from reconet.data.transforms import Augmentation, augment
from reconet.inference.windows import whole_image
from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Model, Recipe
from reconet.system.hardware import Precision
from reconet.system.user_cache import cache_root
from reconet.types import Label

FEATURES = "features"  # the folder of all stores
VIEW = 2  # what a stream of random numbers is for, beside ORDER and AUGMENT of data/order.py
DIGEST_BYTES = 10


@dataclass(frozen=True, kw_only=True)
class TrainingViews:
    """`views` augmented crops of each image. The views of one image follow one another.

    A view is drawn once, as a function of (seed, content of the image, view). So splits that share
    images share views, and neither their order nor their number changes one.
    """

    dataset: Dataset
    augmentation: Augmentation
    seed: int
    views: int
    labels: bool = False  # the entries are labels, not features

    @classmethod
    def of(cls, recipe: Recipe, dataset: Dataset) -> "TrainingViews":
        """Return the views of a recipe's training images."""
        data = recipe.data
        augmentation = Augmentation.of(data)
        return cls(
            dataset=dataset, augmentation=augmentation, seed=data.view_seed, views=data.views or 1
        )

    def __len__(self) -> int:
        return len(self.dataset) * self.views

    def identity(self, index: int) -> str:
        """Tell an entry from others: its image, its view, and its labels if it holds them."""
        image = index // self.views
        labels = f" labels {identify_label(self.dataset, image)}" if self.labels else ""
        return self._view(index) + labels

    def _view(self, index: int) -> str:
        image, view = divmod(index, self.views)
        return f"{identify_image(self.dataset, image)} view {view}"

    def __getitem__(self, index: int) -> tuple[Tensor, Label]:
        """Draw a view: image_bchw with one image, and its labels."""
        digest = blake2b(self._view(index).encode(), digest_size=8).digest()
        rng = random_stream(VIEW, self.seed, int.from_bytes(digest, "little"))
        crop = augment(self.dataset[index // self.views], self.augmentation, rng)
        return torch.from_numpy(crop.image_hwc).permute(2, 0, 1)[None], crop.label_hw


@dataclass(frozen=True, kw_only=True)
class WholeImages:
    """Each image once and whole, its long side at base_size, as validations see it."""

    dataset: Dataset
    base_size: int

    def __len__(self) -> int:
        return len(self.dataset)

    def identity(self, index: int) -> str:
        """Tell an entry from others by its image."""
        return identify_image(self.dataset, index)

    def __getitem__(self, index: int) -> tuple[Tensor, Label]:
        """Scale an image: image_bchw with one image. The labels stay with the dataset."""
        image_bchw = whole_image(self.dataset[index].image_hwc, self.base_size)
        return image_bchw, np.empty((0, 0), np.uint8)


Source = TrainingViews | WholeImages


@dataclass(frozen=True, kw_only=True, eq=False)
class Wanted:
    """A store that a training reads. It may be incomplete, or not exist yet."""

    store: Store
    source: Source
    precision: Precision  # that the backbone computes in
    about: Mapping[str, object]  # for people


def want_views(recipe: Recipe, model: Segmenter, train_set: Dataset) -> list[Wanted]:
    """Return the features that a network learns from, and their labels."""
    source = TrainingViews.of(recipe, train_set)
    facts = {"augmentation": source.augmentation.key(), "seed": source.seed}
    about = describe(recipe, train_set, model) | {"views": source.views}
    stages = {*model.stages_read, *(["c3"] if model.aux is not None else [])}
    wanted = _want_stages(
        recipe, model, source, stages, recipe.data.crop, {"kind": "views", **facts}, about
    )
    # The dataset and its options say what the numbers in masks mean.
    means = {"dataset": recipe.data.name, "options": recipe.data.options}
    labels = replace(source, labels=True)
    facts = {"kind": "labels", **facts, **means}
    store = _find_store(facts, _digest_of_images(labels), labels, LABEL, "uint8", recipe.data.crop)
    about = {key: value for key, value in about.items() if key not in Model.model_fields} | facts
    return [*wanted, Wanted(store=store, source=labels, precision="fp32", about=about)]


def want_whole(recipe: Recipe, model: Segmenter, val_set: Dataset) -> list[Wanted]:
    """Return the features that a network is scored on."""
    side = recipe.data.base_size
    source = WholeImages(dataset=val_set, base_size=side)
    facts = {"kind": "whole images", "base_size": side}
    about = describe(recipe, val_set, model)
    stages = set(model.stages_read)
    return _want_stages(recipe, model, source, stages, (side, side), facts, about)


def _want_stages(
    recipe: Recipe,
    model: Segmenter,
    source: Source,
    stages: set[str],
    size: tuple[int, int],
    facts: Mapping[str, object],
    about: Mapping[str, object],
) -> list[Wanted]:
    """Return a store for each stage that a network reads of images of `size` at most."""
    specs, precision = model.backbone.stages(size)._asdict(), recipe.train.precision
    images, about = _digest_of_images(source), {**about, **facts}
    if precision != "fp32":
        about["precision"] = precision
    lasts = {name == "c4" for name in stages}
    wanted, trunks = [], {last: facts_of_trunk(model, project=last) for last in lasts}
    for name in sorted(stages):
        spec, last = specs[name], name == "c4"
        channels = model.project.out_channels if last and model.project else spec.channels
        own = {"trunk": trunks[last], "precision": precision, **facts}
        shape = (channels, spec.height, spec.width)
        store = _find_store(own, images, source, name, "float16", shape)
        wanted.append(Wanted(store=store, source=source, precision=precision, about=about))
    return wanted


def _find_store(
    facts: Mapping[str, object],
    images: str,
    source: Source,
    name: str,
    dtype: str,
    shape: tuple[int, ...],
) -> Store:
    family = digest_of({"format": FORMAT, "parts": {name: [dtype, *shape]}, **facts})
    return Store(cache_root() / FEATURES / family / images, len(source), name, dtype, shape)


def _digest_of_images(source: Source) -> str:
    return digest_of([source.identity(index) for index in range(len(source))])


def describe(recipe: Recipe, dataset: Dataset, model: Segmenter) -> dict[str, object]:
    """Describe images and network for people who list the cache."""
    data, settings = recipe.data, recipe.model
    return {
        "dataset": data.name,
        "split": dataset.split,
        "root": None if data.root is None else str(data.root.absolute()),
        "images": len(dataset),
        "crop": list(data.crop),
        "backbone": settings.backbone,
        "weights": settings.weights,
        "output_stride": model.output_stride,
        "project": settings.project,
    }


def digest_of(facts: object) -> str:
    """Hash anything that JSON can hold."""
    text = json.dumps(facts, sort_keys=True)
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def digest_of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Hash names, types, shapes and values."""
    state = blake2b(digest_size=DIGEST_BYTES)
    for name, tensor in sorted(tensors.items()):
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        state.update(tensor.detach().cpu().contiguous().reshape(-1).numpy().data)
    return state.hexdigest()


def facts_of_trunk(model: Segmenter, *, project: bool) -> dict[str, object]:
    """Describe the frozen part of a network: weights, layers, and what these do not tell.

    Strides and dilations are no weights: the layers tell them. `project` adds the projection.
    Many processes have another kind of batch norm.
    """
    parts = {"backbone", "mean_c11", "std_c11"} | ({"project"} if project else set())
    state = model.state_dict().items()
    layers = [
        (name, "" if isinstance(layer, _BatchNorm) else type(layer).__name__, layer.extra_repr())
        for name, layer in model.backbone.named_modules()
    ]
    return {
        "weights": digest_of_tensors({n: x for n, x in state if n.partition(".")[0] in parts}),
        "layers": digest_of(layers),
        "more": dict(model.backbone.cache_facts()),
    }
