"""Write the values of a training, and a few predictions, for TensorBoard."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from reconet.data.dataset import Dataset
from reconet.evaluation.prediction_sheet import predict_tiles
from reconet.inference.protocol import Protocol
from reconet.models.segmenter import Segmenter

IMAGES, SIDE = 4, 256  # drawn at each validation


class Events:
    """The event file of a run. Processes that do not write have one without a writer."""

    def __init__(self, writer: Any = None) -> None:
        self._writer = writer

    def add_values(self, group: str, step: int, values: Mapping[str, object]) -> None:
        """Add all values that are numbers."""
        if self._writer is None:
            return
        for name, value in values.items():
            if isinstance(value, float):
                self._writer.add_scalar(f"{group}/{name}", value, step)

    def add_predictions(
        self, step: int, model: Segmenter, dataset: Dataset, protocol: Protocol
    ) -> None:
        """Draw a few images beside truth and prediction."""
        if self._writer is None:
            return
        palette = dataset.info.palette
        for number, tile in enumerate(
            predict_tiles(model, dataset, protocol, palette, count=IMAGES, side=SIDE)
        ):
            self._writer.add_image(
                f"val/{number}", _side_by_side(tile.images), step, dataformats="HWC"
            )


@contextmanager
def open_events(directory: Path, step: int, *, is_first: bool) -> Iterator[Events]:
    """Open the event file. Values after `step` are those of a part that is trained again."""
    if not is_first:
        yield Events()
        return
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(directory), purge_step=step + 1 if step else None) as writer:
        yield Events(writer)


def _side_by_side(images: Sequence[Any]) -> Any:
    return np.concatenate([np.asarray(image) for image in images], axis=1)
