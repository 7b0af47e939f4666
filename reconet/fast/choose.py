"""Measure all ways to run a network, and keep the fastest that gives the same labels.

The ways run in turns on one window of a real image. From the fastest on, each is compared with
eager fp32 until one agrees well enough. It is kept in a folder that appears in one move, so that a
kill leaves no half of it.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import torch
from pydantic import BaseModel
from torch import Tensor

from reconet.errors import CheckpointError, OutputError, first_line, is_out_of_memory
from reconet.evaluation.benchmarks import benchmark_scores
from reconet.evaluation.metrics import confusion_matrix
from reconet.export.graph import smallest_side
from reconet.export.sample_images import windows_of
from reconet.fast.images import ProbeImages, find_probe_images
from reconet.fast.store import is_in_cache, keep, staged_folder
from reconet.fast.ways import COMPILED, GPU_WAYS, WAYS, Candidate, Make, Subject, make_compiled
from reconet.inference.fast import SPARE_BYTES, FastChoice, hash_weights
from reconet.inference.network import make_network
from reconet.inference.protocol import Protocol
from reconet.inference.windows import Forward, predict_labels
from reconet.models.trained import TrainedNetwork, load_trained
from reconet.recipes.schema import Data
from reconet.system.hardware import make_bf16_safe
from reconet.system.own_code import import_own
from reconet.system.progress import SILENT, Progress
from reconet.system.timing import ratios, time_in_turns

EAGER = "eager fp32"
ROUNDS = 3
LEAST_GAIN = 1.1  # times as fast as eager fp32; less is not worth another file
LEAST_AGREEMENT = 0.98  # of the pixels
MOST_LOST = 0.5  # points of mIoU


class Job(BaseModel):
    """What to measure, and where to keep the result. The first folder is the best place."""

    source: Path
    weights: str  # digest
    device: str = "cpu"
    threads: int = 1
    images: tuple[Path, ...] = ()
    data: Data | None = None  # of the validation images, if not those of the recipe
    imports: tuple[str, ...] = ()
    machine: str
    folders: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How well a way agrees with eager fp32. Without labelled images there is no mIoU."""

    same: float  # fraction of the pixels with the same label
    before: float | None = None  # mIoU of eager fp32
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


def choose_fastest(job: Job, progress: Progress = SILENT) -> FastChoice:
    """Measure, and keep the choice in a folder of the job."""
    make_bf16_safe()  # before the first product
    torch.set_num_threads(job.threads)
    for source in job.imports:
        import_own(source)
    trained = load_trained(job.source)
    if hash_weights(job.source) != job.weights:  # a training goes on
        raise CheckpointError("the weights changed while they were read; try again.")
    images = find_probe_images(trained.info, job.images, job.data)
    with staged_folder(job.folders[0]) as folder:
        search = Search(trained, torch.device(job.device), images, folder, progress)
        best, text = search.run(can_compile=is_in_cache(job.folders[-1]))
        choice = FastChoice(
            way=best.way if best else "eager",
            text=text,
            network=str(job.source),
            machine=job.machine,
            had_images=bool(job.images) or not images.is_generated,
            smallest=smallest_side(trained.model.output_stride),
        )
        home = job.folders[-1] if choice.way == "compiled" else job.folders[0]
        return keep(choice, best.file if best else None, home)


class Search:
    """Finds the fastest way that agrees with eager fp32."""

    def __init__(
        self,
        trained: TrainedNetwork,
        device: torch.device,
        images: ProbeImages,
        folder: Path,
        progress: Progress = SILENT,
    ) -> None:
        recipe = trained.info.recipe
        self.info, self.device, self.images, self.progress = trained.info, device, images, progress
        # One view of each image: an average over scales would hide differences.
        protocol = Protocol.of(recipe.eval, recipe.data)
        self.protocol = replace(protocol, scales=(1.0,), flip=False)
        self.eager = make_network(trained, device).forward
        self.subject = Subject(
            trained=trained,
            device=device,
            calibrated=images.calibrated,
            protocol=self.protocol,
            folder=folder,
        )
        self.remarks: dict[str, str] = {}  # why a way was not taken
        self._eager_labels: list[Tensor] = []

    def run(self, *, can_compile: bool = True) -> tuple[Candidate | None, str]:
        """Return the best way, or None for eager fp32, and the reason in a line."""
        on_cpu = self.device.type == "cpu"
        ways = dict(WAYS) if on_cpu else {name: WAYS[name] for name in GPU_WAYS}
        self.progress.start(len(ways) + 2, "fast")
        made = self._make_all(ways)
        if on_cpu and can_compile and not any(one.way == "exported" for one in made):
            made += self._make_all({COMPILED: make_compiled})
        self.progress.status("timing ...")
        speedups = self._time(made)
        self.progress.advance()
        self.progress.status(f"comparing on {self.images.description} ...")
        best = self._first_that_agrees(made, speedups)
        self.progress.advance()
        if best is not None:
            return best, self.remarks[best.name]
        reasons = "; ".join(f"{name}: {reason}" for name, reason in self.remarks.items())
        return None, f"{EAGER}, since nothing else pays here ({reasons})"

    def _make_all(self, ways: Mapping[str, Make]) -> list[Candidate]:
        made = []
        for name, make in ways.items():
            self.progress.status(f"trying {name} ...")
            made += self._make(name, make)
            self.progress.advance()
        return made

    def _make(self, name: str, make: Make) -> list[Candidate]:
        """Make one way ready. Return nothing if it does not run here."""
        try:
            candidate = make(self.subject)
            candidate.forward(self._window())
        except Exception as error:  # each library raises errors of its own kind
            self._check_room(error)
            self.remarks[name] = first_line(error).rstrip(".")
            return []
        return [candidate]

    def _check_room(self, error: Exception) -> None:
        """Raise if a way failed for want of room. That is no reason to give it up for good."""
        if isinstance(error, OSError | OutputError) or is_out_of_memory(error):
            raise error
        if shutil.disk_usage(self.subject.folder).free < SPARE_BYTES:
            raise OutputError(f"no space is left in {self.subject.folder.parent}") from error

    def _window(self) -> Tensor:
        windows_bchw = windows_of(self.images.compared[0].image_hwc, self.protocol)
        return torch.from_numpy(windows_bchw[:1]).to(self.device)

    def _time(self, made: list[Candidate]) -> dict[str, float]:
        """Return how many times as fast as eager fp32 each way is, the median of some rounds."""
        window_bchw = self._window()
        forwards = {EAGER: self.eager} | {one.name: one.forward for one in made}
        calls = {name: partial(one, window_bchw) for name, one in forwards.items()}
        seconds = time_in_turns(calls, ROUNDS)
        return {name: median(ratios(seconds[EAGER], took)) for name, took in seconds.items()}

    def _first_that_agrees(
        self, made: list[Candidate], speedups: dict[str, float]
    ) -> Candidate | None:
        waiting = list(made)
        while waiting:
            best = max(waiting, key=lambda one: speedups[one.name])
            waiting.remove(best)
            speed = f"{speedups[best.name]:.2f} times as fast as {EAGER}"
            if speedups[best.name] < LEAST_GAIN:
                self.remarks[best.name] = speed
                continue
            agreement = self.compare(best.forward)
            self.remarks[best.name] = f"{speed}, {agreement}"
            if agreement.is_good:
                on = f"on {self.images.description}"
                self.remarks[best.name] = f"{best.name}, {speed}, {agreement} {on}"
                return best
            if best.gentler is not None:
                self.progress.status(f"{best.name}: {agreement}; trying with less rounding ...")
                gentler = self._make(f"{best.name}, gentler", best.gentler)
                speedups |= self._time(gentler)
                waiting += gentler
        return None

    def compare(self, forward: Forward) -> Agreement:
        """Compare labels with those of eager fp32, on all images."""
        if not self._eager_labels:
            self._eager_labels = [self._label(self.eager, i) for i in range(len(self.images))]
        same = pixels = 0
        classes = len(self.info.classes)
        counts = torch.zeros(2, classes, classes, dtype=torch.int64)  # eager, and this way
        for index, eager_hw in enumerate(self._eager_labels):
            label_hw = self._label(forward, index)
            same += int((label_hw == eager_hw).sum())
            pixels += label_hw.numel()
            truth = self.images.compared[index].label_hw
            if truth is not None:
                truth_hw = torch.from_numpy(truth)
                counts[0] += confusion_matrix(truth_hw, eager_hw, classes)
                counts[1] += confusion_matrix(truth_hw, label_hw, classes)
        if not counts.sum():
            return Agreement(same=same / pixels)
        name = self.info.recipe.data.name
        before, after = (
            benchmark_scores(count_kk, name, self.info.classes).mean_iou.item()
            for count_kk in counts
        )
        return Agreement(same=same / pixels, before=before, after=after)

    def _label(self, forward: Forward, index: int) -> Tensor:
        pixels_hwc = torch.from_numpy(self.images.compared[index].image_hwc).to(self.device)
        return predict_labels(forward, pixels_hwc, self.protocol, len(self.info.classes)).cpu()
