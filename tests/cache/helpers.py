"""What several tests of the cache share."""

from pathlib import Path

import torch

from reconet.cache import Part, Store, TrainingViews, open_features
from reconet.data import open_dataset
from reconet.data.dataset import Dataset
from reconet.data.transforms import Augmentation
from reconet.system.distributed import Processes
from reconet.system.hardware import Precision
from tests.factories import ProgressRecorder, tiny_model

CLASSES = {"classes": ["one", "two"]}
ALONE = Processes.single(torch.device("cpu"))
AUGMENTATION = Augmentation(crop=(32, 48), base_size=48)
PARTS = {"c4": Part(dtype="float16", shape=(64, 4, 6))}
LABELS = {"label": Part(dtype="uint8", shape=(32, 48))}


def open_list(tree: Path, split: str) -> Dataset:
    return open_dataset("folder", split, tree, CLASSES)


def views_of(
    dataset: Dataset, *, seed: int = 0, views: int = 2, labels: bool = False
) -> TrainingViews:
    return TrainingViews(
        dataset=dataset, augmentation=AUGMENTATION, seed=seed, views=views, labels=labels
    )


def opened(
    source: TrainingViews,
    progress: ProgressRecorder | None = None,
    precision: Precision = "fp32",
) -> Store:
    """Open features of views, or their labels if the source is about labels."""
    torch.manual_seed(0)
    model = tiny_model("fcn", crop=(32, 48)).eval()
    return open_features(
        source,
        model,
        LABELS if source.labels else PARTS,
        {"kind": "test"},
        ALONE,
        precision=precision,
        progress=progress or ProgressRecorder(),
    )
