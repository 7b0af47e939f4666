"""Quantise a network for `--fast`, and keep it if its labels stay the same.

`python -m reconet.export.fast JOB` is the process that reconet/inference/fast.py starts. The result
appears in one move, so that a kill leaves no half of it.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from uuid import uuid4

import cv2
import numpy as np
import torch
from torch import Tensor

from reconet.data import DATASETS, open_split
from reconet.data.dataset import Dataset, evenly_spaced, has_labels
from reconet.data.images.read import read_image
from reconet.errors import (
    CheckpointError,
    DataError,
    ExportError,
    OutputError,
    ReconetError,
    first_line,
    is_out_of_memory,
)
from reconet.evaluation.benchmarks import benchmark_scores
from reconet.evaluation.metrics import confusion_matrix
from reconet.export.formats import save_openvino, to_onnx
from reconet.export.graph import export_info, smallest_side, trace
from reconet.export.int8 import kept_in_fp32, quantise
from reconet.export.sample_images import windows_of
from reconet.inference.fast import CHOICE, INT8, MOST_IMAGES, FastWay, Job, way_folder
from reconet.inference.network import make_network, open_export
from reconet.inference.probe import hash_export
from reconet.inference.protocol import Protocol
from reconet.inference.windows import Forward, predict_labels
from reconet.models.trained import NetworkInfo, TrainedNetwork, load_trained
from reconet.recipes.schema import Data
from reconet.system.files import write_text
from reconet.system.hardware import make_bf16_safe
from reconet.system.own_code import import_own
from reconet.system.progress import SILENT, Progress, Silent
from reconet.system.readable import counted
from reconet.system.timing import ratios, time_in_turns
from reconet.types import Image, Label

ROUNDS = 3
LEAST_GAIN = 1.1  # times as fast as fp32; less is not worth another file
LEAST_AGREEMENT = 0.98  # of the pixels
MOST_LOST = 0.5  # points of mIoU
MOST_PIXELS = 2**22  # of an image at hand, so that some dozen photos fit into memory
DAY = 86400.0  # seconds: no measurement takes so long


@dataclass(frozen=True, kw_only=True)
class ProbeImage:
    """An image, with its true labels if they are known."""

    image_hwc: Image
    label_hw: Label | None = None


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How well int8 agrees with fp32. Without labelled images there is no mIoU."""

    same: float  # fraction of the pixels with the same label
    before: float | None = None  # mIoU in fp32
    after: float | None = None

    @property
    def is_good(self) -> bool:
        lost = 100 * (self.before - self.after) if self.before and self.after is not None else 0
        return self.same >= LEAST_AGREEMENT and lost <= MOST_LOST

    def __str__(self) -> str:
        score = ""
        if self.before is not None and self.after is not None:
            score = f", mIoU {100 * self.before:.2f} -> {100 * self.after:.2f}"
        return f"{100 * self.same:.2f} % of the labels agree{score}"


def measure(job: Job, progress: Progress = SILENT) -> FastWay:
    """Find out whether int8 pays for a network, and keep the answer."""
    make_bf16_safe()  # before the first product
    torch.set_num_threads(job.threads)
    for own in job.imports:
        import_own(own)
    trained = load_trained(job.source)
    if way_folder(job.source) != job.folder:  # a training goes on
        raise CheckpointError("the weights changed while they were read; try again.")
    with _staged(job.folder) as staged:
        images, origin = find_images(trained.info, job.images, job.data)
        way = FastWay(text="", network=str(job.source), had_images=bool(job.images or images))
        try:
            text = quantise_checked(trained, images, staged / INT8, progress)
            digest, smallest = (
                hash_export(staged / INT8),
                smallest_side(trained.model.output_stride),
            )
            way = way.model_copy(update={"digest": digest, "smallest": smallest})
            way = way.model_copy(update={"text": f"OpenVINO int8, {text} on {origin}"})
        except Exception as error:  # each library raises errors of its own kind
            # No room is no reason to give int8 up for good.
            if isinstance(error, OSError | OutputError) or is_out_of_memory(error):
                raise
            reason = first_line(error).rstrip(".")
            way = way.model_copy(update={"text": f"fp32, since int8 does not pay here: {reason}"})
        write_text(staged / CHOICE, way.model_dump_json(indent=1) + "\n")
        shutil.rmtree(job.folder, ignore_errors=True)  # damaged, or measured without images
        os.rename(staged, job.folder)
    return way


def quantise_checked(
    trained: TrainedNetwork, images: Sequence[ProbeImage], path: Path, progress: Progress = SILENT
) -> str:
    """Write a network in int8 that keeps its labels, and return how it compares with fp32.

    Every other image calibrates, and the rest compare. Later attempts keep more in fp32.
    """
    if not images:
        raise ExportError("there are no real images to compare on")
    if trained.model.context.info.not_in_onnx:
        raise ExportError(trained.model.context.info.not_in_onnx)
    recipe = trained.info.recipe
    # One look at each image: an average over scales would hide differences.
    protocol = replace(Protocol.of(recipe.eval, recipe.data), scales=(1.0,), flip=False)
    windows = []
    for number, one in enumerate(images[1::2] or images):
        every_bchw = windows_of(one.image_hwc, protocol)
        windows.append(every_bchw[number % len(every_bchw)][None])
    compared = [*images[::2], _stretched(images[0])]
    exact = make_network(trained, torch.device("cpu")).forward
    choices = kept_in_fp32(trained.model)
    progress.start(2 + len(choices), "fast")
    progress.status("tracing ...")
    proto = to_onnx(trace(trained.model))
    progress.advance()
    expected = [_label(exact, one, protocol, trained.info) for one in compared]
    progress.advance()
    for kept in choices:
        rest = f", all but {', '.join(kept)}" if kept else ""
        progress.status(f"quantising by {counted(len(windows), 'image')}{rest} ...")
        model = quantise(proto, windows, kept)
        save_openvino(model, replace(export_info(trained), precision="int8"), path)
        int8 = open_export(path, trusted=True).forward
        speed = _speed(exact, int8, torch.from_numpy(windows[0]))
        if speed < LEAST_GAIN:
            raise ExportError(f"it is {speed:.2f} times as fast")
        progress.status(f"comparing on {counted(len(compared), 'image')} ...")
        predicted = [_label(int8, one, protocol, trained.info) for one in compared]
        agreement = compare(compared, expected, predicted, trained.info)
        progress.advance()
        if agreement.is_good:
            return f"{speed:.2f} times as fast as fp32, {agreement}"
    raise ExportError(str(agreement))


def compare(
    images: Sequence[ProbeImage],
    expected: Sequence[Tensor],
    predicted: Sequence[Tensor],
    info: NetworkInfo,
) -> Agreement:
    """Compare the labels of fp32 and of int8, and their scores where the truth is known."""
    classes = len(info.classes)
    same = sum(int((a == b).sum()) for a, b in zip(expected, predicted, strict=True))
    pixels = sum(label_hw.numel() for label_hw in expected)
    counts = torch.zeros(2, classes, classes, dtype=torch.int64)
    for number, one in enumerate(images):
        if one.label_hw is not None:
            truth_hw = torch.from_numpy(one.label_hw)
            for way, labels in enumerate((expected, predicted)):
                counts[way] += confusion_matrix(truth_hw, labels[number], classes)
    if not counts.sum():
        return Agreement(same=same / pixels)
    before, after = (
        benchmark_scores(count_kk, info.recipe.data.name, info.classes).mean_iou.item()
        for count_kk in counts
    )
    return Agreement(same=same / pixels, before=before, after=after)


def find_images(
    info: NetworkInfo, paths: Sequence[Path], data: Data | None = None
) -> tuple[list[ProbeImage], str]:
    """Take validation images of the network, else the images at hand, and say which they are."""
    dataset = _open_val(data or info.recipe.data)
    if dataset is not None:
        labelled = has_labels(dataset) and dataset.info.classes == info.classes
        samples = [dataset[i] for i in evenly_spaced(len(dataset), MOST_IMAGES)]
        images = [
            ProbeImage(image_hwc=one.image_hwc, label_hw=one.label_hw if labelled else None)
            for one in samples
        ]
        origin = f"of {dataset.info.name} {dataset.split}"
    else:
        images, origin = [image for path in paths for image in _read(path)], "at hand"
    return images, f"{counted(len(images[::2]), 'image')} {origin}"


def _open_val(data: Data) -> Dataset | None:
    """Open the validation images of a network, if they are on this machine."""
    if data.name not in DATASETS:
        return None
    try:
        dataset = open_split(data, data.val_split)
    except DataError:
        return None
    return dataset if len(dataset) else None


def _read(path: Path) -> list[ProbeImage]:
    """Read an image. One that is broken is left out: predicting it will say so."""
    try:
        image_hwc = read_image(path)
    except (DataError, OSError):
        return []
    zoom = (MOST_PIXELS / (image_hwc.shape[0] * image_hwc.shape[1])) ** 0.5
    if zoom < 1:
        small = cv2.resize(image_hwc, None, fx=zoom, fy=zoom, interpolation=cv2.INTER_AREA)
        image_hwc = np.asarray(small, np.uint8)
    return [ProbeImage(image_hwc=image_hwc)]


def _stretched(one: ProbeImage) -> ProbeImage:
    """Return an image at other proportions: a graph may be wrong at sizes other than its own."""
    height, width = one.image_hwc.shape[:2]
    size = (max(1, 5 * width // 4 + 3), max(1, 3 * height // 4 + 1))
    stretched = cv2.resize(one.image_hwc, size, interpolation=cv2.INTER_AREA)
    return ProbeImage(image_hwc=np.asarray(stretched, np.uint8))


def _label(forward: Forward, one: ProbeImage, protocol: Protocol, info: NetworkInfo) -> Tensor:
    return predict_labels(forward, torch.from_numpy(one.image_hwc), protocol, len(info.classes))


def _speed(exact: Forward, int8: Forward, window_bchw: Tensor) -> float:
    """Return how many times as fast int8 is, the median of some rounds."""
    calls = {name: partial(f, window_bchw) for name, f in (("exact", exact), ("int8", int8))}
    seconds = time_in_turns(calls, ROUNDS)
    return median(ratios(seconds["exact"], seconds["int8"]))


@contextmanager
def _staged(home: Path) -> Iterator[Path]:
    """Give a folder to work in, beside the one that will be kept. Remove it afterwards."""
    for left in home.parent.glob(".*.part"):  # by a process that was killed
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > DAY:
                shutil.rmtree(left)
    folder = home.with_name(f".{home.name}.{uuid4().hex[:8]}.part")
    try:
        folder.mkdir(parents=True)
        yield folder
    except OSError as error:
        raise OutputError(f"cannot write {home.parent}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class PrintedProgress(Silent):
    """Prints what is reported, for the process that started this one."""

    def start(self, total: int, task: str = "") -> None:
        """Print the total."""
        _print("start", total, task)

    def advance(self, count: int = 1) -> None:
        """Print the count."""
        _print("advance", count)

    def status(self, text: str) -> None:
        """Print the text."""
        _print("status", text)


_stdout = sys.stdout  # libraries print too, and one of them hides it


def _print(*values: object) -> None:
    print(json.dumps(values), file=_stdout, flush=True)


def main(argument: str) -> int:
    """Run a job. Return 2 after an error that a user can mend, which is the last line."""
    try:
        measure(Job.model_validate_json(argument), PrintedProgress())
    except (ReconetError, MemoryError) as error:
        print(str(error) or "there is not enough memory", flush=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
