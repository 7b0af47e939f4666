"""Open the features of a split: find them in the cache, or compute them and keep them.

One image and one thread at a time give the same bits whoever computes an entry and when, so a
cache that was killed and resumed, or built by more processes, is the same cache.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from reconet.cache.store import LABEL, Store, lock_store
from reconet.cache.wanted import Wanted
from reconet.data.parallel import map_in_processes
from reconet.errors import DataError, OutputError
from reconet.models.features import Features
from reconet.models.fold import fold_batchnorm
from reconet.models.segmenter import Segmenter
from reconet.system.distributed import Processes
from reconet.system.files import readable_bytes
from reconet.system.hardware import Precision, autocast, cast_layers
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.system.user_cache import cache_root, mark_in_use

FEW = 64  # entries that are not worth the start of other processes
SPARE_BYTES = 2**28  # that stay free on the disk, or a quarter of the need if that is less


def free_bytes() -> int:
    """Return how much of the cache's disk is free."""
    root = cache_root().absolute()
    place = next(path for path in (root, *root.parents) if path.is_dir())
    return shutil.disk_usage(place).free


def check_room(stores: Iterable[Store]) -> None:
    """Raise an error if the disk has no room for the entries that these stores lack together.

    Entries are written through memory maps. A disk that fills up meanwhile ends the process.
    """
    needs = {store.directory: store.missing_bytes() for store in stores}
    need, free = sum(needs.values()), free_bytes()
    need += min(SPARE_BYTES, need // 4)
    if need > free:
        raise OutputError(
            f"the features need {readable_bytes(need)} and {cache_root()} has "
            f"{readable_bytes(free)} free; set RECONET_CACHE to another disk, or run `reconet "
            "cache clear`. Contexts that read only c4 need least."
        )


def open_features(
    wanted: Sequence[Wanted],
    model: Segmenter,
    processes: Processes,
    progress: Progress = SILENT,
) -> list[Store]:
    """Check stores and compute what they lack. Returns them, complete."""
    for one in wanted:
        if not processes.run_on_first(partial(_is_finished_for_ever, one.store, progress)):
            _complete(one, model, processes, progress)
    return [one.store for one in wanted]


def _is_finished_for_ever(store: Store, progress: Progress) -> bool:
    """Return whether a store is complete and whole, on a disk that can only be read."""
    if store.is_writable or not store.has_all_files():
        return False
    return not (store.missing() or store.damaged(progress))


def _complete(wanted: Wanted, model: Segmenter, processes: Processes, progress: Progress) -> None:
    store = wanted.store
    with processes.first_holds(lambda: lock_store(store.directory, progress)):
        processes.run_on_first(lambda: _prepare(wanted, progress))
        with processes.together():
            fill(wanted, model, processes, workers=worker_count(processes), progress=progress)
        left = processes.run_on_first(lambda: len(store.missing()))
    if left:  # another process may have dropped some
        raise DataError(f"{store.directory} still lacks {counted(left, 'entry')}; run it again.")


def _prepare(wanted: Wanted, progress: Progress) -> None:
    """Make the files of a store, and drop damaged entries."""
    store = wanted.store
    mark_in_use(store.directory)
    try:
        store.create(wanted.about)
    except OSError as error:
        raise OutputError(f"cannot write {store.directory}: {error.strerror}.") from error
    damaged = store.damaged(progress)
    if damaged:
        entries = counted(len(damaged), "damaged entry")
        progress.note(f"computing anew {entries} in {store.directory}")
        store.forget(damaged)
    left = len(store.missing())
    if left:
        size = readable_bytes(left * store.slot_bytes)
        progress.note(f"features of {counted(left, 'entry')}, {size}, go to {store.directory}")


def worker_count(processes: Processes) -> int:
    """Use every core by a process of its own, unless torchrun or a GPU does that already."""
    alone = processes.size == 1 and processes.device.type == "cpu"
    return (os.cpu_count() or 1) if alone else 0


def fill(
    wanted: Wanted,
    model: Segmenter,
    processes: Processes,
    *,
    workers: int,
    progress: Progress = SILENT,
) -> None:
    """Compute what is missing, of each process its share.

    The share does not depend on what is missing: the processes look at different moments.
    """
    rank, size = processes.rank, processes.size
    missing = [index for index in wanted.store.missing() if index % size == rank]
    if not missing:
        return
    work = EntryWriter(wanted, as_fast_trunk(model, wanted.precision))
    workers = workers if len(missing) >= FEW else 0
    progress.start(len(missing), "compute features")
    with closing(map_in_processes(work, missing, workers, chunk=1)) as entries:
        for _ in entries:
            progress.advance()


@dataclass(frozen=True)
class EntryWriter:
    """Compute one entry of a store and keep it."""

    wanted: Wanted
    model: Segmenter  # from as_fast_trunk

    def __call__(self, index: int) -> int:
        store = self.wanted.store
        image_bchw, array = self.wanted.source[index]
        if store.name != LABEL:
            with one_thread(), autocast(self.model.mean_c11.device, self.wanted.precision):
                array = compute(self.model, image_bchw, store.name).numpy()
        store.write(index, array)
        return index


@torch.inference_mode()
def compute(model: Segmenter, image_bchw: Tensor, stage: str) -> Tensor:
    """Run the trunk of a network on one image, up to a stage. Returns the features of the stage."""
    place = Features._fields.index(stage)
    device = next(model.backbone.parameters()).device
    image_bchw = image_bchw.to(device).contiguous(memory_format=torch.channels_last)
    map_bchw: Tensor = model.trunk(image_bchw, stages=place + 1)[place]
    return map_bchw.squeeze(0).float().cpu().contiguous()


def as_fast_trunk(model: Segmenter, precision: Precision = "fp32") -> Segmenter:
    """Copy a network for use only: batch norm folded, channels last, layers in `precision`."""
    folded = fold_batchnorm(model)
    cast_layers(folded, precision)
    return folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, for the same bits everywhere."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
