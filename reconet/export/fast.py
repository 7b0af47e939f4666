"""Quantise a network for `--fast`, and keep it if its labels stay the same.

`python -m reconet.export.fast JOB` is the process that reconet/inference/fast.py starts. The result
appears in one move, so that a kill leaves no half of it.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import cv2
import numpy as np
import torch
from torch import Tensor

from reconet.data import DATASETS, open_split
from reconet.data.dataset import evenly_spaced, has_labels, title_of
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
from reconet.evaluation.metrics import benchmark_scores, confusion_matrix
from reconet.export.formats import export_info, save_openvino, smallest_side, to_onnx, trace
from reconet.export.int8 import kept_in_fp32, quantise
from reconet.export.sample_images import windows_of
from reconet.inference.fast import CHOICE, INT8, MOST_IMAGES, FastWay, Job, way_folder
from reconet.inference.network import hash_files, make_network, open_export
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

Labelled = tuple[Image, Label | None]  # an image, and its true labels if they are known


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


def measure(job: Job, progress: Progress = SILENT) -> None:
    """Find out whether int8 pays for a network, and keep the answer."""
    make_bf16_safe()  # before the first product
    torch.set_num_threads(job.threads)
    for own in job.imports:
        import_own(own)
    trained, home = load_trained(job.source), job.folder
    if way_folder(job.source) != home:  # a training goes on
        raise CheckpointError("the weights changed while they were read; try again.")
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        for left in home.parent.glob(".*.part"):  # by a process that was killed
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > DAY:
                    shutil.rmtree(left)
        with TemporaryDirectory(".part", ".", home.parent) as staged:
            path = Path(staged) / home.name / INT8
            path.parent.mkdir()
            way = _quantise_or_say_why(trained, job, path, progress)
            write_text(path.with_name(CHOICE), way.model_dump_json(indent=1) + "\n")
            shutil.rmtree(home, ignore_errors=True)  # damaged, or measured without images
            os.rename(path.parent, home)
    except OSError as error:
        raise OutputError(f"cannot write {home.parent}: {error.strerror or error}.") from error


def _quantise_or_say_why(
    trained: TrainedNetwork, job: Job, path: Path, progress: Progress
) -> FastWay:
    images, origin = find_images(trained.info, job.images, job.data)
    way = FastWay(text="", network=str(job.source), had_images=bool(job.images or images))
    try:
        text = quantise_checked(trained, images, path, progress)
        kept = {
            "text": f"OpenVINO int8, {text} on {origin}",
            "digest": hash_files(path),
            "smallest": smallest_side(trained.model.output_stride),
        }
    except Exception as error:  # each library raises errors of its own kind
        # No room is no reason to give int8 up for good.
        if isinstance(error, OSError | OutputError) or is_out_of_memory(error):
            raise
        reason = first_line(error).rstrip(".")
        kept = {"text": f"fp32, since int8 does not pay here: {reason}"}
    return way.model_copy(update=kept)


def quantise_checked(
    trained: TrainedNetwork, images: Sequence[Labelled], path: Path, progress: Progress = SILENT
) -> str:
    """Write a network in int8 that keeps its labels, and return how it compares with fp32.

    Every other image calibrates, and the rest compare. Later attempts keep more in fp32.
    """
    if not images:
        raise ExportError("there are no real images to compare on")
    if trained.model.context.info.not_in_onnx:
        raise ExportError(trained.model.context.info.not_in_onnx)
    recipe, classes = trained.info.recipe, len(trained.info.classes)
    # One look at each image: an average over scales would hide differences.
    protocol = replace(Protocol.of(recipe.eval, recipe.data), scales=(1.0,), flip=False)
    windows = windows_of([image_hwc for image_hwc, _ in images[1::2] or images], protocol)
    # One at other proportions, too: a graph may be wrong at sizes other than its own.
    height, width = images[0][0].shape[:2]
    size = (max(1, 5 * width // 4 + 3), max(1, 3 * height // 4 + 1))
    stretched_hwc = np.asarray(cv2.resize(images[0][0], size, interpolation=cv2.INTER_AREA))
    compared = [*images[::2], (stretched_hwc.astype(np.uint8), None)]

    def predict(forward: Forward) -> list[Tensor]:
        pixels = [torch.from_numpy(image_hwc) for image_hwc, _ in compared]
        return [predict_labels(forward, one_hwc, protocol, classes) for one_hwc in pixels]

    exact = make_network(trained, torch.device("cpu")).forward
    choices = kept_in_fp32(trained.model)
    progress.start(2 + len(choices), "fast")
    progress.status("tracing ...")
    proto = to_onnx(trace(trained.model))
    progress.advance()
    expected = predict(exact)
    progress.advance()
    for kept in choices:
        rest = f", all but {', '.join(kept)}" if kept else ""
        progress.status(f"quantising by {counted(len(windows), 'image')}{rest} ...")
        model = quantise(proto, windows, kept)
        save_openvino(model, replace(export_info(trained), precision="int8"), path)
        int8 = open_export(path, trusted=True).forward
        window_bchw = torch.from_numpy(windows[0])
        calls = {"exact": partial(exact, window_bchw), "int8": partial(int8, window_bchw)}
        seconds = time_in_turns(calls, ROUNDS)
        speed = median(ratios(seconds["exact"], seconds["int8"]))
        if speed < LEAST_GAIN:
            raise ExportError(f"it is {speed:.2f} times as fast")
        progress.status(f"comparing on {counted(len(compared), 'image')} ...")
        truths = [label_hw for _, label_hw in compared]
        agreement = compare(truths, expected, predict(int8), trained.info)
        progress.advance()
        if agreement.is_good:
            return f"{speed:.2f} times as fast as fp32, {agreement}"
    raise ExportError(str(agreement))


def compare(
    truths: Sequence[Label | None],
    expected: Sequence[Tensor],
    predicted: Sequence[Tensor],
    info: NetworkInfo,
) -> Agreement:
    """Compare the labels of fp32 and of int8, and their scores where the truth is known."""
    classes = len(info.classes)
    same = sum(int((a == b).sum()) for a, b in zip(expected, predicted, strict=True))
    pixels = sum(label_hw.numel() for label_hw in expected)
    counts = torch.zeros(2, classes, classes, dtype=torch.int64)
    for truth_hw, *ways in zip(truths, expected, predicted, strict=True):
        if truth_hw is not None:
            for way, label_hw in enumerate(ways):
                counts[way] += confusion_matrix(torch.from_numpy(truth_hw), label_hw, classes)
    if not counts.sum():
        return Agreement(same=same / pixels)
    before, after = (
        benchmark_scores(count_kk, info.recipe.data.name, info.classes).mean_iou
        for count_kk in counts
    )
    return Agreement(same=same / pixels, before=before, after=after)


def find_images(
    info: NetworkInfo, paths: Sequence[Path], data: Data | None = None
) -> tuple[list[Labelled], str]:
    """Take validation images of the network, else the images at hand, and say which they are."""
    data = data or info.recipe.data
    images: list[Labelled] = []
    origin = "at hand"
    with suppress(DataError):  # it is not on this machine
        if data.name in DATASETS:
            dataset = open_split(data, data.val_split)
            labelled = has_labels(dataset) and dataset.info.classes == info.classes
            samples = [dataset[i] for i in evenly_spaced(len(dataset), MOST_IMAGES)]
            images = [(one.image_hwc, one.label_hw if labelled else None) for one in samples]
            origin = f"of {title_of(dataset)}"
    for path in () if images else paths:
        with suppress(DataError, OSError):  # predicting it will say so
            image_hwc = read_image(path)
            zoom = min(1.0, (MOST_PIXELS / (image_hwc.shape[0] * image_hwc.shape[1])) ** 0.5)
            how = cv2.INTER_AREA
            small_hwc = cv2.resize(image_hwc, None, fx=zoom, fy=zoom, interpolation=how)
            images.append((np.asarray(small_hwc, np.uint8), None))
    return images, f"{counted(len(images[::2]), 'image')} {origin}"


class PrintedProgress(Silent):
    """Prints what is reported, for the process that started this one."""

    def start(self, total: int, task: str = "") -> None:
        _print("start", total, task)

    def advance(self, count: int = 1) -> None:
        _print("advance", count)

    def status(self, text: str) -> None:
        _print("status", text)


_stdout = sys.stdout  # libraries print too, and one of them hides it


def _print(*values: object) -> None:
    print(json.dumps(values), file=_stdout, flush=True)


if __name__ == "__main__":
    try:
        measure(Job.model_validate_json(sys.argv[1]), PrintedProgress())
    except (ReconetError, MemoryError) as error:  # the last line says what a user can mend
        print(str(error) or "there is not enough memory", flush=True)
        sys.exit(2)
