"""Fill a store with features: every missing entry, by many processes, one image at a time.

One image and one thread at a time give the same bits whoever computes an entry and when, so a
cache that was killed and resumed, or built by more processes, is the same cache.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reconet.cache.store import LABEL, Store
from reconet.cache.views import TrainingViews, WholeImages
from reconet.data.order import random_stream
from reconet.data.parallel import map_in_processes
from reconet.models.features import Features
from reconet.models.fold import fold_batchnorm
from reconet.models.segmenter import Segmenter
from reconet.system.distributed import Processes
from reconet.system.hardware import Precision, autocast, cast_layers
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import readable_seconds

SAMPLE_IMAGES, SAMPLE_POSITIONS = 512, 64  # that a projection is fitted to
SAMPLE = 3  # what the stream of random numbers is for
FEW = 64  # entries that are not worth the start of other processes
ESTIMATE_SECONDS = 5.0  # of work, after which the time of the rest is told
Source = TrainingViews | WholeImages


@dataclass(frozen=True)
class EntryWriter:
    """Compute one entry of a store and keep it."""

    store: Store
    source: Source
    model: Segmenter  # from as_fast_trunk
    precision: Precision = "fp32"

    def __call__(self, index: int) -> int:
        image_bchw, label_hw = self.source[index]
        arrays = {LABEL: label_hw}
        stages = self.store.parts.keys() - {LABEL}
        if stages:
            with one_thread(), autocast(self.model.mean_c11.device, self.precision):
                features = compute(self.model, image_bchw, stages)._asdict()
            arrays |= {name: features[name].numpy() for name in stages}
        self.store.write(index, arrays)
        return index


@torch.inference_mode()
def compute(model: Segmenter, image_bchw: Tensor, names: Iterable[str]) -> Features:
    """Run the trunk of a network on one image, up to the last of the named stages.

    Returns its features without the batch axis.
    """
    stages = max(Features._fields.index(name) + 1 for name in names)
    weight = next(model.backbone.parameters())
    image_bchw = image_bchw.to(weight.device).contiguous(memory_format=torch.channels_last)
    features = model.trunk(image_bchw, stages=stages)
    return Features(*(map_bchw.squeeze(0).float().cpu().contiguous() for map_bchw in features))


def fill(
    store: Store,
    source: Source,
    model: Segmenter,
    *,
    workers: int,
    precision: Precision = "fp32",
    rank: int = 0,
    size: int = 1,
    progress: Progress = SILENT,
) -> None:
    """Compute what is missing. Of `size` processes, number `rank` has every size-th entry.

    The share does not depend on what is missing: the processes look at different moments.
    """
    missing = [index for index in store.missing() if index % size == rank]
    if not missing:
        return
    work = EntryWriter(store, source, as_fast_trunk(model, precision), precision)
    workers = workers if len(missing) >= FEW else 0
    progress.start(len(missing), "compute features")
    pace = Pace(len(missing), workers)
    with closing(map_in_processes(work, missing, workers, chunk=1)) as entries:
        for _ in entries:
            progress.advance()
            if estimate := pace.estimate():
                progress.note(f"computing the features takes about {estimate} from here")


def worker_count(processes: Processes) -> int:
    """Use every core by a process of its own, unless torchrun or a GPU does that already."""
    alone = processes.size == 1 and processes.device.type == "cpu"
    return (os.cpu_count() or 1) if alone else 0


class Pace:
    """Estimate once how long the rest will take.

    Other processes need seconds to start, so the clock starts when each has sent an entry.
    """

    def __init__(self, total: int, workers: int) -> None:
        self._left, self._unmeasured = total, max(1, workers)
        self._measured, self._began, self._told = 0, 0.0, False

    def estimate(self) -> str | None:
        """Count an entry. Return the time of the rest at the first moment that it is known."""
        self._left -= 1
        if self._unmeasured > 0:
            self._unmeasured -= 1
            self._began = time.monotonic()
            return None
        self._measured += 1
        took = time.monotonic() - self._began
        if self._told or took < ESTIMATE_SECONDS or not self._left:
            return None
        self._told = True
        return readable_seconds(took / self._measured * self._left)


def as_fast_trunk(model: Segmenter, precision: Precision = "fp32") -> Segmenter:
    """Copy a network for use only: batch norm folded, channels last, layers in `precision`."""
    folded = fold_batchnorm(model)
    cast_layers(folded, precision)
    return folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True)
class PositionSampler:
    """Take the last stage's features at some random positions of one entry."""

    source: Source
    model: Segmenter
    seed: int

    def __call__(self, index: int) -> Tensor:
        with one_thread(), torch.inference_mode():
            image_bchw = self.source[index][0].to(self.model.mean_c11.device)
            image_bchw = image_bchw.contiguous(memory_format=torch.channels_last)
            c4_cn = self.model.backbone(self.model.normalise(image_bchw)).c4[0].flatten(1).cpu()
            rng = random_stream(SAMPLE, self.seed, index)
            position_n = rng.choice(c4_cn.shape[1], min(SAMPLE_POSITIONS, c4_cn.shape[1]), False)
            sample_nc: Tensor = c4_cn[:, torch.from_numpy(position_n)].T.clone()
            return sample_nc


def sample_features(
    source: Source, model: Segmenter, seed: int, *, workers: int, progress: Progress = SILENT
) -> Tensor:
    """Collect features_nc of the last stage, before any projection, over the whole source."""
    count = min(SAMPLE_IMAGES, len(source))
    indices: Sequence[int] = np.linspace(0, len(source) - 1, count).astype(int).tolist()
    progress.start(count, "sample features")
    parts = []
    sampler = PositionSampler(source, as_fast_trunk(model), seed)
    workers = workers if count >= FEW else 0
    with closing(map_in_processes(sampler, indices, workers, chunk=1)) as results:
        for part_nc in results:
            parts.append(part_nc)
            progress.advance()
    return torch.cat(parts)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, for the same bits everywhere."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
