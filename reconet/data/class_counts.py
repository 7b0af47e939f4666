"""Count the pixels of each class in a split."""

from collections.abc import Iterable
from contextlib import closing
from functools import partial

import numpy as np
from numpy.typing import NDArray

from reconet.data.dataset import Dataset, read_label
from reconet.data.loader import OnError
from reconet.data.parallel import map_in_processes
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress

WORTH_WORKERS = 500  # masks: fewer are counted before a process has started


def count_classes(
    dataset: Dataset,
    indices: Iterable[int] | None = None,
    *,
    workers: int = 0,
    on_error: OnError = "raise",
    progress: Progress = SILENT,
) -> NDArray[np.int64]:
    """Count the pixels of each class in some masks of a split, by default in all. Void is left out.

    With on_error="skip" a mask that cannot be read is left out, with a note.
    """
    chosen = list(range(len(dataset)) if indices is None else indices)
    workers = workers if len(chosen) >= WORTH_WORKERS else 0
    pixels_k = np.zeros(len(dataset.info.classes), np.int64)
    progress.start(len(chosen), "count classes")
    with closing(map_in_processes(partial(_count_one, dataset), chosen, workers)) as results:
        for count_k in results:
            if isinstance(count_k, str):
                if on_error == "raise":
                    raise DataError(count_k)
                progress.note(f"not counted: {count_k}")
            else:
                pixels_k += count_k
            progress.advance()
    return pixels_k


def _count_one(dataset: Dataset, index: int) -> NDArray[np.int64] | str:
    """Count the pixels of one mask, or say why it cannot be read."""
    try:
        label_hw = read_label(dataset, index)
    except DataError as error:
        name, reason = dataset.name(index), str(error)
        return reason if name in reason else f"{name}: {reason}"
    count_n = np.bincount(label_hw.reshape(-1), minlength=256)
    return count_n[: len(dataset.info.classes)].astype(np.int64)
