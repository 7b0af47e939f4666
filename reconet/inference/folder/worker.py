"""Predict the images of one process: read them, run the network, write their files.

Each file appears in one move, and none outside the output folder.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from numpy.lib import format as npy

from reconet.data.images.read import read_upright
from reconet.data.images.write import write_mask
from reconet.errors import DataError, OutputError, ReconetError, is_out_of_memory
from reconet.inference.folder.record import (
    LONG_OVERLAY,
    MASK,
    OVERLAY,
    PROBABILITIES,
    RECORD,
    FolderPlan,
    PlannedImage,
    RecordEntry,
    possible_files,
    size_and_time,
)
from reconet.inference.predictor import Prediction, Predictor
from reconet.system.distributed import Processes
from reconet.system.files import append_text, write_atomic
from reconet.system.progress import Progress
from reconet.types import Image

JPEG_LONGEST = 65_500  # pixels of a side
QUALITY = 90

Results = dict[Path, dict[str, Any]]  # what became of each image


class ReadImage(NamedTuple):
    """An image in memory, ready to be predicted."""

    planned: PlannedImage
    entry: RecordEntry
    image_hwc: Image


def predict_own(
    plan: FolderPlan,
    processes: Processes,
    predictor: Predictor,
    kinds: Sequence[str],
    progress: Progress,
) -> Results:
    """Predict the images of this process. Tell what became of each, also of those done before.

    Chunks are cut before the images that are done are left out, and dealt out to the processes in
    turn. So one process and several show the network the same batches.
    """
    size, images = predictor.protocol.batch, plan.images
    chunks = [images[start : start + size] for start in range(0, len(images), size)]
    own = chunks[processes.rank :: processes.size]
    todo = [[image for image in chunk if not image.is_done] for chunk in own]
    progress.start(sum(map(len, todo)), "predict")
    worker = FolderWorker(plan, predictor, kinds)
    results: Results = {
        image.path: {"status": "skipped", **image.entry.summary()}
        for chunk in own
        for image in chunk
        if image.is_done and image.entry is not None
    }
    for chunk in todo:
        for path, result in worker.predict(chunk):
            results[path] = result
            progress.advance()
    return results


@dataclass(frozen=True)
class FolderWorker:
    """Predicts chunks of images, writes their files, and tells what became of each image."""

    plan: FolderPlan
    predictor: Predictor
    kinds: Sequence[str]

    def predict(self, chunk: list[PlannedImage]) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Predict a chunk. Small images of one size go through the network together.

        A large image is predicted as soon as it is read, so that no other waits in memory with it.
        """
        waiting: list[ReadImage] = []
        for planned in chunk:
            try:
                image = self._read(planned)
            except (ReconetError, OSError, MemoryError) as error:
                yield planned.path, _failure(error)
                continue
            if self.predictor.images_at_once(image.image_hwc.shape[:2]) == 1:
                yield from self._predict([image])
            else:
                waiting.append(image)
        yield from self._predict(waiting)

    def _read(self, planned: PlannedImage) -> ReadImage:
        path = planned.path
        try:
            mode = os.stat(path).st_mode
        except OSError as error:
            raise DataError(f"cannot read {path}: {(error.strerror or '').lower()}.") from error
        if not stat.S_ISREG(mode):  # reading a pipe would block
            reason = "the folder cannot be listed" if stat.S_ISDIR(mode) else "it is no file"
            raise DataError(f"cannot read {path}: {reason}.")
        size, mtime_ns = size_and_time(path)
        image_hwc, frames = read_upright(path)
        height, width = image_hwc.shape[:2]
        self._check_memory(height * width)
        entry = RecordEntry(
            source=planned.source,
            stem=planned.stem,
            run=self.plan.run,
            network=self.plan.network,
            bytes=size,
            mtime_ns=mtime_ns,
            outputs={kind: planned.stem + ENDINGS[kind] for kind in self.kinds},
            width=width,
            height=height,
            note=f"has {frames} frames or pages; only the first is used" if frames > 1 else "",
        )
        if max(height, width) > JPEG_LONGEST and "overlay" in entry.outputs:
            entry.outputs["overlay"] = planned.stem + LONG_OVERLAY
        return ReadImage(planned, entry, image_hwc)

    def _check_memory(self, pixels: int) -> None:
        """Raise if all probabilities of an image do not fit. Labels always do: they need bands."""
        budget = self.predictor.protocol.budget_bytes
        needed = 4 * len(self.predictor.classes) * pixels
        if "probabilities" in self.kinds and needed > budget:
            raise DataError(
                f"its probabilities need {needed / 2**30:.1f} GiB, and --memory gives "
                f"{budget / 2**30:.1f}; give more, or leave out --probabilities."
            )

    def _predict(self, images: list[ReadImage]) -> Iterator[tuple[Path, dict[str, Any]]]:
        try:
            predictions = self.predictor(
                [image.image_hwc for image in images],
                with_probabilities="probabilities" in self.kinds,
            )
        except (ReconetError, MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not is_out_of_memory(error):
                raise  # a bug
            if len(images) > 1:  # find out which image it was
                for image in images:
                    yield from self._predict([image])
            else:
                yield images[0].planned.path, _failure(error)
            return
        for image, prediction in zip(images, predictions, strict=True):
            try:
                result = {"status": "done", **self._write(image, prediction).summary()}
            except (ReconetError, OSError, MemoryError) as error:
                result = _failure(error)
            yield image.planned.path, result

    def _write(self, image: ReadImage, prediction: Prediction) -> RecordEntry:
        """Remove the files of a former run, append the line of the image, write its files."""
        out, former = self.plan.out, image.planned.entry
        entry = replace(image.entry, shares=prediction.shares())
        paths = {kind: path_inside(out, name) for kind, name in entry.outputs.items()}
        before = set(entry.outputs.values())
        if former is not None:
            before |= possible_files(former.stem).intersection(former.outputs.values())
        for name in before:
            path_inside(out, name).unlink(missing_ok=True)
        append_text(out / RECORD, entry.line())
        for kind, path in paths.items():
            WRITERS[kind](path, prediction)
        return entry


def _failure(error: BaseException) -> dict[str, Any]:
    reason = str(error) or type(error).__name__
    if is_out_of_memory(error):
        reason = "there is not enough memory for it."
    return {"status": "failed", "error": reason}


def path_inside(out: Path, name: str) -> Path:
    """Return the path of an output file. Raise if a link leads it out of the folder."""
    path = out / name
    if path.is_symlink() or not path.resolve().is_relative_to(out.resolve()):
        raise OutputError(f"cannot write {path}: a link leads out of {out}.")
    return path


def _write_labels(path: Path, prediction: Prediction) -> None:
    write_mask(path, prediction.label_hw, prediction.palette)


def _write_overlay(path: Path, prediction: Prediction) -> None:
    image, kind = prediction.overlay(), "JPEG" if path.suffix == ".jpg" else "PNG"
    write_atomic(path, lambda file: image.save(file, kind, quality=QUALITY))


def _write_probabilities(path: Path, prediction: Prediction) -> None:
    """Write probability_khw in half precision, and the names of the classes, for numpy.load.

    Class by class, because another copy of all of them might not fit in memory.
    """
    probability_khw = prediction.probability_khw
    assert probability_khw is not None

    def write(file: BinaryIO) -> None:
        header = {"descr": "<f2", "fortran_order": False, "shape": probability_khw.shape}
        with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=1) as archive:
            with archive.open("probability_khw.npy", "w", force_zip64=True) as member:
                npy.write_array_header_1_0(member, header)
                for probability_hw in probability_khw:
                    member.write(probability_hw.astype("<f2").tobytes())
            with archive.open("classes.npy", "w") as member:
                npy.write_array(member, np.array(prediction.classes), allow_pickle=False)

    write_atomic(path, write)


ENDINGS = {"labels": MASK, "overlay": OVERLAY, "probabilities": PROBABILITIES}
WRITERS: dict[str, Callable[[Path, Prediction], None]] = {
    "labels": _write_labels,
    "overlay": _write_overlay,
    "probabilities": _write_probabilities,
}
