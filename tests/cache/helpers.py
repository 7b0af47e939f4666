"""What several tests of the cache share."""

from pathlib import Path

import torch

from reconet.cache import Part, Store, TrainingViews, open_features
from reconet.data import open_dataset
from reconet.data.dataset import Dataset
from reconet.data.transforms import Augmentation
from reconet.system.distributed import Processes
from reconet.system.precision import Precision
from tests.factories import ProgressRecorder, tiny_model

ALONE = Processes.single(torch.device("cpu"))
AUGMENTATION = Augmentation(crop=(32, 48), base_size=48)
PARTS = {
    "c4": Part(dtype="float16", shape=(64, 4, 6)),
    "label": Part(dtype="uint8", shape=(32, 48)),
}


def open_list(tree: Path, split: str) -> Dataset:
    return open_dataset("folder", split, tree, {"classes": ["one", "two"]})


def views_of(dataset: Dataset, *, seed: int = 0, views: int = 2) -> TrainingViews:
    return TrainingViews(dataset=dataset, augmentation=AUGMENTATION, seed=seed, views=views)


def opened(
    source: TrainingViews,
    progress: ProgressRecorder | None = None,
    precision: Precision = "fp32",
) -> Store:
    torch.manual_seed(0)
    model = tiny_model("fcn", crop=(32, 48)).eval()
    return open_features(
        source,
        model,
        PARTS,
        {"kind": "test"},
        ALONE,
        precision=precision,
        progress=progress or ProgressRecorder(),
    )
