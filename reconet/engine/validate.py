"""Score the network during a training."""

from typing import NamedTuple

from torch import Tensor

from reconet.data.dataset import Dataset
from reconet.engine.inputs import Inputs
from reconet.engine.stop import StopSwitch
from reconet.evaluation import no_labels_error
from reconet.evaluation.metrics import benchmark_scores, named_scores
from reconet.models.liveness import mean_liveness, record_liveness
from reconet.models.segmenter import Segmenter
from reconet.system.distributed import Processes
from reconet.system.progress import Progress
from reconet.system.readable import counted


class Validation(NamedTuple):
    """The scores of one validation."""

    values: dict[str, float]  # by their names in the log
    iou_k: Tensor
    count_kk: Tensor
    loss: float | None = None  # not with cached features


def validate(
    model: Segmenter,
    inputs: Inputs,
    dataset: Dataset,
    processes: Processes,
    *,
    stop: StopSwitch,
    progress: Progress,
) -> Validation:
    """Score a network on a dataset, and measure whether its attention is alive.

    Raises StoppedError if `stop` asks for it, and DataError if there is nothing to score.
    """
    counter = _StatusProgress(progress, processes.share_of(len(dataset)))
    with record_liveness(model.context) as samples:
        confusion = inputs.count_confusion(model, stop, counter)
    count_kk, info = confusion.count_kk, dataset.info
    processes.raise_together(None if count_kk.any() else no_labels_error(dataset))
    values = named_scores(count_kk, info.name, info.classes)
    liveness = mean_liveness(samples)
    if liveness is not None:
        values |= liveness._asdict()
    if confusion.skipped:
        progress.note(
            f"validation left out {counted(confusion.skipped, 'image')} that cannot be read"
        )
        values["skipped"] = confusion.skipped
    iou_k = benchmark_scores(count_kk, info.name, info.classes).iou_k
    return Validation(values, iou_k, count_kk, confusion.loss)


class _StatusProgress:
    """Shows a task as the status of another task that is already being counted."""

    def __init__(self, outer: Progress, total: int) -> None:
        self._outer = outer
        self.start(total)

    def start(self, total: int, task: str = "validate") -> None:
        self._task, self._done, self._total = task, 0, total

    def advance(self, count: int = 1) -> None:
        self._done += count
        self.status(f"{self._task} {self._done} of {self._total}")

    def status(self, text: str) -> None:
        self._outer.status(text)

    def note(self, text: str) -> None:
        self._outer.note(text)
