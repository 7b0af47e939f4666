"""What several tests of the cache share."""

import os
from pathlib import Path

import torch

from reconet.cache import Store, TrainingViews, Wanted, open_features
from reconet.data import Dataset, open_dataset
from reconet.data.transforms import Augmentation
from reconet.models import Segmenter
from tests.engine.steps import ALONE
from tests.factories import ProgressRecorder, tiny_model

CLASSES = {"classes": ["one", "two"]}
AUGMENTATION = Augmentation(crop=(32, 48), base_size=48)


def open_list(tree: Path, split: str) -> Dataset:
    return open_dataset("folder", split, tree, CLASSES)


def views_of(
    dataset: Dataset, *, seed: int = 0, views: int = 2, labels: bool = False
) -> TrainingViews:
    return TrainingViews(
        dataset=dataset, augmentation=AUGMENTATION, seed=seed, views=views, labels=labels
    )


def network() -> Segmenter:
    torch.manual_seed(0)
    return tiny_model("fcn", crop=(32, 48)).eval()


def wanted(source: TrainingViews, name: str = "test") -> Wanted:
    """Return a store of features, or of labels if the source is about labels."""
    kind = ("label", "uint8", (32, 48)) if source.labels else ("c4", "float16", (64, 4, 6))
    store = Store(Path(os.environ["RECONET_CACHE"]) / name, len(source), *kind)
    return Wanted(store=store, source=source, precision="fp32", about={"kind": "test"})


def opened(source: TrainingViews, progress: ProgressRecorder | None = None) -> Store:
    """Open features of views, or their labels if the source is about labels."""
    [store] = open_features([wanted(source)], network(), ALONE, progress or ProgressRecorder())
    return store
