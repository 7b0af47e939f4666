"""Run a network in int8 by OpenVINO where its labels stay the same: `--fast`.

The first call for a network quantises it, and compares it with fp32 on real images. That takes
minutes, in a process of its own (reconet/export/fast.py), so that a crash or a lack of memory there
costs speed and no labels. The result is kept in the user's cache, in a folder that is named by a
digest of the weights, the CPU and the packages.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from reconet.data.dataset import evenly_spaced
from reconet.errors import OutputError, ReconetError
from reconet.inference.network import Network, hash_files, is_export, open_export, open_network
from reconet.models.trained import find_weights
from reconet.recipes.schema import Data
from reconet.system.hardware import describe_cpu
from reconet.system.own_code import imported_sources
from reconet.system.progress import NOTES, Progress
from reconet.system.reading import SETTINGS_BYTES, read_file
from reconet.system.user_cache import FAST, cache_root, mark_in_use

CHOICE, INT8 = "choice.json", "network.xml"  # in a folder of the cache
PACKAGES = ("reconet", "torch", "openvino", "nncf", "onnxscript")
REPORTS = ("start", "advance", "status")  # of progress, that a measurement prints
LEAST_IMAGES, MOST_IMAGES = 4, 64  # at hand that a measurement takes; fewer are none


class FastWay(BaseModel):
    """How --fast runs one network on one machine, and why."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    text: str  # what was chosen and why, for people
    network: str = ""  # its path, for people
    had_images: bool = False  # whether there were real images to compare on
    digest: str = ""  # of the int8 file; without one the network runs as it is
    smallest: int = 0  # shortest side of an image that the file takes
    folder: Path | None = None  # where it is kept


class Job(BaseModel):
    """What another process measures, and where it keeps the result."""

    source: Path
    threads: int = 1
    images: tuple[Path, ...] = ()  # at hand
    data: Data | None = None  # of the validation images, if not those of the recipe
    imports: tuple[str, ...] = ()
    folder: Path


def open_fast(
    source: Path,
    device: torch.device,
    *,
    images: Sequence[Path] = (),
    data: Data | None = None,
    progress: Progress = NOTES,
) -> Network:
    """Open a network in int8 if its labels stay the same, and note how it runs.

    The first call for a network measures, which takes minutes. `images` are files to compare and
    calibrate by if the dataset of the network is not on this machine. `data` says where it is, if
    not where the recipe says.
    """
    return open_way(find_way(source, device, images, progress, data=data), source, device, progress)


def find_way(
    source: Path,
    device: torch.device,
    images: Sequence[Path] = (),
    progress: Progress = NOTES,
    *,
    data: Data | None = None,
) -> FastWay:
    """Find what is kept for a network, or have it measured."""
    if is_export(source):
        return FastWay(text=f"{source.name} is an export already, and runs as it is")
    if device.type != "cpu":
        return FastWay(text="int8 is for CPUs, so this GPU runs bf16 if it computes that")
    if not has_fast_packages():
        return FastWay(text="fp32, since int8 needs `pip install 'reconet[export]'`")
    folder, enough = way_folder(source), len(images) >= LEAST_IMAGES
    kept = _read(folder)
    if kept and (kept.had_images or not (data or enough)):
        return kept
    chosen = [images[i].absolute() for i in evenly_spaced(len(images), MOST_IMAGES)]
    job = Job(
        source=source,
        threads=torch.get_num_threads(),
        images=tuple(chosen) if enough else (),
        data=data,
        imports=tuple(imported_sources()),
        folder=folder,
    )
    try:
        run_measurement(["-m", "reconet.export.fast", job.model_dump_json()], progress)
    except ReconetError as error:
        return FastWay(text=f"fp32, since int8 could not be tried: {str(error).rstrip('.')}")
    return _read(folder) or FastWay(text="fp32, since the measurement ended without a result")


def open_way(
    way: FastWay, source: Path, device: torch.device, progress: Progress = NOTES
) -> Network:
    """Open a network as it was chosen, and note it. What cannot be opened runs in fp32."""
    if way.folder is None or not way.digest:
        progress.note(f"fast: {way.text}")
        return open_network(source, device, "auto" if device.type != "cpu" else None)
    try:
        network = open_export(way.folder / INT8, trusted=True)
    except ReconetError as error:
        progress.note(f"fast: fp32, since the kept file fails: {error}")
        return open_network(source, device)
    progress.note(f"fast: {way.text}; kept in {way.folder.parent}")

    @cache
    def exact() -> Network:
        return open_network(source, device)

    def forward(image_bchw: Tensor) -> Tensor:
        small = min(image_bchw.shape[2:]) < way.smallest
        return (exact() if small else network).forward(image_bchw)

    return replace(network, forward=forward)


def has_fast_packages() -> bool:
    """Tell whether the packages that make and run int8 are installed."""
    return all(find_spec(name) is not None for name in PACKAGES[2:])


def way_folder(source: Path) -> Path:
    """Return the folder of the cache for a network on this machine."""
    parts = [hash_files(find_weights(source)), describe_cpu(), *map(_version, PACKAGES)]
    for own in imported_sources():  # other code can make another network of the same weights
        with suppress(OSError):
            parts += [own, blake2b(read_file(Path(own))).hexdigest()]
    return cache_root() / FAST / blake2b("\n".join(parts).encode(), digest_size=10).hexdigest()


@cache
def _version(package: str) -> str:
    with suppress(PackageNotFoundError):
        return f"{package} {version(package)}"
    return f"no {package}"


def _read(folder: Path) -> FastWay | None:
    """Read what is kept in a folder, if it is there and not damaged."""
    with suppress(OSError, ValueError, ReconetError):
        text = read_file(folder / CHOICE, limit=SETTINGS_BYTES, within=folder)
        way = FastWay.model_validate_json(text)
        if not way.digest or hash_files(folder / INT8) == way.digest:
            mark_in_use(folder)
            return way.model_copy(update={"folder": folder})
    return None


def run_measurement(arguments: Sequence[str], progress: Progress) -> None:
    """Run Python in another process, and pass on the progress that it prints as lines of JSON."""
    last, reports = "", {name: getattr(progress, name) for name in REPORTS}
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
                try:
                    name, *values = json.loads(line)
                    reports[name](*values)
                except (ValueError, TypeError, KeyError):  # libraries print too
                    last = line.strip() or last
            child.wait()
        except BaseException:  # Ctrl-C ends both
            child.kill()
            raise
    if child.returncode < 0:
        raise OutputError(f"the measurement was killed ({signal.Signals(-child.returncode).name})")
    if child.returncode:
        raise OutputError(last or "the measurement failed")
