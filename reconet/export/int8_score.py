"""Measure the mIoU of an int8 network on images of its own dataset."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconet.data import open_split
from reconet.data.dataset import Dataset, DatasetInfo, Sample, has_labels
from reconet.errors import AbsentError, DataError
from reconet.evaluation import count_confusion, no_labels_error
from reconet.evaluation.benchmarks import benchmark_scores
from reconet.export.formats import save_openvino
from reconet.inference.backends import ExportInfo, open_exported
from reconet.inference.protocol import Protocol
from reconet.inference.windows import Forward
from reconet.models.trained import NetworkInfo
from reconet.system.distributed import Processes, pick_device
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted


@dataclass(frozen=True, kw_only=True)
class Int8Scorer:
    """Scores networks on some images of a split, by the protocol of the recipe."""

    network: NetworkInfo
    dataset: Dataset
    progress: Progress = SILENT

    @property
    def description(self) -> str:
        images = counted(len(self.dataset), "image")
        return f"{images} of {self.dataset.info.name} {self.dataset.split}"

    def score(self, forward: Forward) -> float:
        """Return the mIoU of a network, on the CPU."""
        recipe, classes = self.network.recipe, self.network.classes
        self.progress.start(len(self.dataset), "score")
        count_kk = count_confusion(
            forward,
            len(classes),
            self.dataset,
            Processes.single(pick_device("cpu")),
            protocol=Protocol.of(recipe.eval, recipe.data),
            progress=self.progress,
        ).count_kk
        if not count_kk.sum():
            raise no_labels_error(self.dataset)
        return benchmark_scores(count_kk, recipe.data.name, classes).mean_iou.item()

    def score_openvino(self, model: Any, info: ExportInfo) -> float:
        """Return the mIoU of an openvino.Model. It is opened from a file, as users will do."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.xml"
            save_openvino(model, info, path)
            opened = open_exported(path)
            return self.score(lambda image_bchw: opened(image_bchw)[0])


@dataclass(frozen=True, kw_only=True)
class Subset:
    """Some images of a dataset, as a dataset."""

    whole: Dataset
    indices: Sequence[int]

    @property
    def info(self) -> DatasetInfo:
        return self.whole.info

    @property
    def split(self) -> str:
        return self.whole.split

    def __len__(self) -> int:
        return len(self.indices)

    def name(self, index: int) -> str:
        return self.whole.name(self.indices[index])

    def __getitem__(self, index: int) -> Sample:
        return self.whole[self.indices[index]]


def open_scorer(
    network: NetworkInfo,
    *,
    split: str | None,
    score_on: int | None,
    root: Path | None,
    progress: Progress = SILENT,
) -> Int8Scorer | None:
    """Open a split to score on, or return None if the dataset is not on this machine.

    A dataset that the user named by `root` or `split` must be there.
    """
    data = network.recipe.data
    named = root is not None or split is not None
    split = split or data.val_split
    try:
        dataset = open_split(data, split, root)
    except AbsentError:
        if named:
            raise
        return None
    if not has_labels(dataset):
        raise DataError(f"{data.name} {split} has no labels to score against; name another split.")
    if score_on is not None and score_on < len(dataset):
        step = len(dataset) / score_on
        indices = [int(number * step) for number in range(score_on)]
        dataset = Subset(whole=dataset, indices=indices)
    return Int8Scorer(network=network, dataset=dataset, progress=progress)
