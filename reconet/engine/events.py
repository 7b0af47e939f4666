"""Write the values of a training, and a few predictions, for TensorBoard and other loggers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from reconet.data.dataset import Dataset
from reconet.engine.loggers import Loggers, open_loggers
from reconet.evaluation.kept_validation import predict_tiles
from reconet.inference.protocol import Protocol
from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Recipe
from reconet.system.progress import Progress

IMAGES, SIDE = 4, 256  # drawn at each validation
NOBODY = Loggers({})


class Events:
    """The event file of a run. Processes that do not write have one without a writer."""

    def __init__(self, writer: Any = None, loggers: Loggers = NOBODY) -> None:
        self._writer, self._loggers = writer, loggers

    def add_values(self, group: str, step: int, values: Mapping[str, object]) -> None:
        """Add all values that are numbers."""
        if self._writer is None:
            return
        for name, value in values.items():
            if isinstance(value, float):
                self._writer.add_scalar(f"{group}/{name}", value, step)
        self._loggers.add_values(group, step, values)

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
            image_hwc = np.concatenate([np.asarray(image) for image in tile.images], axis=1)
            self._writer.add_image(f"val/{number}", image_hwc, step, dataformats="HWC")
            self._loggers.add_image(f"images/{number}", image_hwc, step)


@contextmanager
def open_events(
    directory: Path,
    step: int,
    recipe: Recipe,
    classes: Sequence[str],
    log: Sequence[str],
    progress: Progress,
) -> Iterator[Events]:
    """Open the event file and the loggers of a run that stands at `step`.

    Values after that step are those of a part that is trained again.
    """
    from torch.utils.tensorboard import SummaryWriter

    with (
        SummaryWriter(str(directory), purge_step=step + 1 if step else None) as writer,
        open_loggers(directory, step, recipe, classes, log, progress) as loggers,
    ):
        yield Events(writer, loggers)
