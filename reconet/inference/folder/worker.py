"""Predict the images of one process: read them, run the network, write their files."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from reconet.data.images.read import read_upright
from reconet.errors import DataError, ReconetError, is_out_of_memory
from reconet.inference.folder.plan import FolderPlan, PlannedImage, WantedOutputs, size_and_time
from reconet.inference.folder.record import (
    RecordEntry,
    append_to_journal,
    journal_path,
    source_key,
)
from reconet.inference.folder.write import write_outputs
from reconet.inference.predictor import Prediction, Predictor
from reconet.system.progress import Progress
from reconet.types import Image

ImageResult = tuple[Path, dict[str, Any]]  # an image and what became of it


class ReadImage(NamedTuple):
    """An image in memory, ready to be predicted."""

    path: Path
    entry: RecordEntry
    image_hwc: Image


class FolderWorker:
    """Predicts chunks of images, writes their files, and tells what became of each image."""

    def __init__(
        self,
        plan: FolderPlan,
        predictor: Predictor,
        wanted: WantedOutputs,
        rank: int,
        progress: Progress,
    ) -> None:
        self.plan, self.predictor, self.wanted, self.progress = plan, predictor, wanted, progress
        self.journal = journal_path(plan.out, plan.token, rank)

    def predict(self, chunk: list[PlannedImage]) -> Iterator[ImageResult]:
        """Predict a chunk. Small images of one size go through the network together.

        A large image is predicted as soon as it is read, so that no other waits in memory with it.
        """
        waiting: dict[tuple[int, ...], list[ReadImage]] = {}
        for path, stem in chunk:
            try:
                image = self._read(path, stem)
            except (ReconetError, OSError, MemoryError) as error:
                yield self._fail(path, error)
                continue
            size = image.image_hwc.shape[:2]
            group = [*waiting.pop(size, []), image]
            if len(group) < self.predictor.images_at_once(size):
                waiting[size] = group
            else:
                yield from self._predict_group(group)
        for group in waiting.values():
            yield from self._predict_group(group)

    def _read(self, path: Path, stem: str) -> ReadImage:
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            raise DataError(f"cannot read {path}: {(error.strerror or '').lower()}.") from error
        if not stat.S_ISREG(mode):  # reading a pipe would block
            reason = "the folder cannot be listed" if stat.S_ISDIR(mode) else "it is no file"
            raise DataError(f"cannot read {path}: {reason}.")
        size, mtime_ns = size_and_time(path)
        image_hwc, frames = read_upright(path)
        note = f"has {frames} frames or pages; only the first is used" if frames > 1 else ""
        entry = RecordEntry(
            source=source_key(path, self.plan.out),
            stem=stem,
            network=self.plan.network,
            bytes=size,
            mtime_ns=mtime_ns,
            height=image_hwc.shape[0],
            width=image_hwc.shape[1],
            note=note,
        )
        return ReadImage(path, entry, image_hwc)

    def _predict_group(self, group: list[ReadImage]) -> Iterator[ImageResult]:
        try:
            for image in group:
                self._check_memory(image.entry)
            predictions = self.predictor(
                [image.image_hwc for image in group],
                with_probabilities=self.wanted.probabilities,
            )
        except (ReconetError, MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not is_out_of_memory(error):
                raise  # a bug
            if len(group) > 1:  # find out which image it was
                for image in group:
                    yield from self._predict_group([image])
            else:
                yield self._fail(group[0].path, error)
            return
        for image, prediction in zip(group, predictions, strict=True):
            yield self._write(image, prediction)

    def _check_memory(self, entry: RecordEntry) -> None:
        """Raise if all probabilities of an image do not fit. Labels always do: they need bands."""
        budget = self.predictor.protocol.budget_bytes
        needed = 4 * len(self.predictor.classes) * entry.height * entry.width
        if self.wanted.probabilities and needed > budget:
            raise DataError(
                f"its probabilities need {needed / 2**30:.1f} GiB, and --memory gives "
                f"{budget / 2**30:.1f}; give more, or leave out --probabilities."
            )

    def _write(self, image: ReadImage, prediction: Prediction) -> ImageResult:
        entry = image.entry
        append_to_journal(self.journal, entry)
        try:
            outputs = write_outputs(self.plan.out, entry.stem, prediction, self.wanted.kinds())
        except (ReconetError, OSError, MemoryError) as error:
            return self._fail(image.path, error)
        entry = replace(entry, run=self.plan.run, outputs=outputs, shares=prediction.shares())
        append_to_journal(self.journal, entry)
        self.progress.advance()
        return image.path, {"status": "done", **entry.summary()}

    def _fail(self, path: Path, error: BaseException) -> ImageResult:
        self.progress.advance()
        reason = str(error) or type(error).__name__
        if is_out_of_memory(error):
            reason = "there is not enough memory for it."
        return path, {"status": "failed", "error": reason}
