"""What an int8 network is judged by: its mIoU on images of the network's own dataset."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reconet.data import open_split
from reconet.data.dataset import Dataset, DatasetInfo, Sample, has_labels
from reconet.errors import AbsentError, DataError
from reconet.evaluation.benchmarks import benchmark_scores
from reconet.evaluation.evaluate import OnImage, confusion_of
from reconet.export.write import save_openvino
from reconet.inference.backends import open_file
from reconet.inference.backends.export_info import ExportInfo
from reconet.inference.protocol import Protocol
from reconet.inference.windows import Forward
from reconet.models.trained import TrainedNetwork
from reconet.system.distributed import World, pick_device

Counter = Callable[[int], OnImage]


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Scores networks on some images of a split."""

    trained: TrainedNetwork
    dataset: Dataset
    world: World
    progress: Counter | None

    @property
    def what(self) -> str:
        return f"{len(self.dataset)} images of {self.dataset.info.name} {self.dataset.split}"

    def score(self, forward: Forward) -> float:
        """mIoU by the recipe's protocol."""
        recipe, classes = self.trained.info.recipe, self.trained.info.classes
        count_kk = confusion_of(
            forward,
            len(classes),
            self.dataset,
            self.world,
            protocol=Protocol.of(recipe.eval, recipe.data),
            on_image=self.progress(len(self.dataset)) if self.progress else None,
        )
        if not count_kk.sum():
            raise DataError(f"{self.what} have no labelled pixel to score against.")
        return benchmark_scores(count_kk, recipe.data.name, classes).mean_iou.item()

    def score_of(self, model: Any, info: ExportInfo) -> float:
        """Of an openvino.Model, by way of a file, as its users will open it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.xml"
            save_openvino(model, info, path)
            opened = open_file(path)
            return self.score(lambda image_bchw: opened(image_bchw)[0])


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some images of a dataset, spread over it."""

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


def open_judge(
    trained: TrainedNetwork,
    *,
    split: str | None,
    score_on: int | None,
    root: Path | None,
    progress: Counter | None,
) -> Judge | None:
    """None where the dataset is not here; but where the user says that it is, it must be."""
    data = trained.info.recipe.data
    asked = root is not None or split is not None
    split = split or data.val_split
    try:
        dataset = open_split(data, split, root)
    except AbsentError:
        if asked:
            raise
        return None
    if not has_labels(dataset):
        raise DataError(f"{data.name} {split} has no labels to score against; name another split.")
    if score_on is not None and score_on < len(dataset):
        step = len(dataset) / score_on
        indices = [int(number * step) for number in range(score_on)]
        dataset = Part(whole=dataset, indices=indices)
    world = World(rank=0, size=1, device=pick_device("cpu"))
    return Judge(trained=trained, dataset=dataset, world=world, progress=progress)
