"""Find the choice that is kept for a network, or have one measured in another process."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import torch

from reconet.data.dataset import evenly_spaced
from reconet.errors import CheckpointError, OutputError, ReconetError
from reconet.inference.fast.choice import (
    SPARE_BYTES,
    FastChoice,
    FoundChoice,
    choice_folders,
    describe_machine,
    hash_weights,
    is_export,
    read_choice,
)
from reconet.models.trained import find_weights
from reconet.recipes.schema import Data
from reconet.system.files import open_own
from reconet.system.locks import lock_file
from reconet.system.own_code import imported_sources
from reconet.system.progress import NOTES, Progress
from reconet.system.run_files import LOCK

LEAST_IMAGES, MOST_IMAGES = 4, 64  # at hand that a measurement takes; fewer are none
COPIES = 4  # of the weights: room for all files that are tried


def find_fast(
    source: Path,
    device: torch.device,
    images: Sequence[Path] = (),
    progress: Progress = NOTES,
    *,
    data: Data | None = None,
) -> FoundChoice:
    """Find the choice that is kept for a network, or measure and keep one.

    `data` says where the validation images of the network are, if not where its recipe says.
    """
    needs_images = data is not None or len(images) >= LEAST_IMAGES
    machine = describe_machine(device)
    if is_export(source):
        text = f"{source.name} is an export already, and runs as it is"
        return FoundChoice(choice=FastChoice(way="eager", text=text, machine=machine))
    weights = find_weights(source)
    folders = choice_folders(source, machine)
    found, damage = _read_first(folders, needs_images)
    if found is not None:
        return found
    try:
        writable = _writable(folders, COPIES * weights.stat().st_size + SPARE_BYTES)
        with _lock(writable[0].parent):  # two processes measure once
            found, _ = _read_first(folders, needs_images)
            found = found or _measure(source, device, images, data, writable, machine, progress)
    except ReconetError as error:
        text = f"eager fp32, since nothing else could be tried: {str(error).rstrip('.')}"
        return FoundChoice(choice=FastChoice(way="eager", text=text, machine=machine))
    if not damage:
        return found
    text = f"{found.choice.text} (measured again: {damage})"
    return replace(found, choice=found.choice.model_copy(update={"text": text}))


def _read_first(folders: Sequence[Path], needs_images: bool) -> tuple[FoundChoice | None, str]:
    """Return the first choice that will do, and what is wrong with those that are damaged."""
    damage = ""
    for folder in folders:
        try:
            found = read_choice(folder)
        except CheckpointError as error:
            damage = str(error)
            continue
        if found and (found.choice.had_images or not needs_images):
            return found, ""
    return None, damage


@contextmanager
def _lock(place: Path) -> Iterator[None]:
    """Let one process at a time measure. A file system without locks has none."""
    with ExitStack() as stack:
        with suppress(OSError):
            handle = open_own(place / LOCK, os.O_RDWR)
            stack.callback(os.close, handle)
            lock_file(handle)
        yield


def _measure(
    source: Path,
    device: torch.device,
    images: Sequence[Path],
    data: Data | None,
    folders: Sequence[Path],
    machine: str,
    progress: Progress,
) -> FoundChoice:
    """Let another process find the fastest way, and return what it kept."""
    job = {
        "source": str(source),
        "weights": hash_weights(source),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "images": [str(image.absolute()) for image in _some(images)],
        "data": None if data is None else data.model_dump(mode="json"),
        "imports": imported_sources(),
        "machine": machine,
        "folders": [str(folder) for folder in folders],
    }
    _run(["-m", "reconet.fast", json.dumps(job)], progress)
    for folder in folders:
        if found := read_choice(folder):
            return found
    raise OutputError("the measurement ended without a result")


def _some(images: Sequence[Path]) -> list[Path]:
    """Return some of the images at hand, or none if they are too few to judge by."""
    chosen = [images[index] for index in evenly_spaced(len(images), MOST_IMAGES)]
    return chosen if len(chosen) >= LEAST_IMAGES else []


def _writable(folders: Sequence[Path], needed: int) -> list[Path]:
    """Return the folders that can be made and have room, or raise if there are none."""
    writable, reasons = [], []
    for folder in folders:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder.parent):
                pass
            if shutil.disk_usage(folder.parent).free < needed:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            writable.append(folder)
        except OSError as error:
            reasons.append(f"cannot write {folder.parent}: {error.strerror or error}")
    if not writable:
        raise OutputError("; ".join(reasons))
    return writable


def _run(arguments: Sequence[str], progress: Progress) -> None:
    """Run Python in another process, and pass on the progress that it prints as lines of JSON."""
    last = ""
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "RANK": "0", "WORLD_SIZE": "1"},  # it is no process of a torchrun
        text=True,
        errors="replace",
    ) as child:
        assert child.stdout is not None
        try:
            for line in child.stdout:
                if not _pass_on(line, progress):
                    last = line.strip() or last
            child.wait()
        except BaseException:  # Ctrl-C ends both
            child.kill()
            raise
    if child.returncode < 0:
        name = signal.Signals(-child.returncode).name
        raise OutputError(f"the measurement was killed ({name})")
    if child.returncode:
        raise OutputError(last or "the measurement failed")


def _pass_on(line: str, progress: Progress) -> bool:
    """Report a line such as ["advance", 1]. Return whether it was one."""
    try:
        name, *values = json.loads(line)
    except (ValueError, TypeError):
        return False
    if name not in ("start", "advance", "status"):
        return False
    getattr(progress, name)(*values)
    return True
