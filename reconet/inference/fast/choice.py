"""Describe the fastest way to run a network, and find the folders where it is kept.

The name of a folder is a digest of the weights, the CPU and the packages, so another checkpoint or
another machine is measured anew.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from reconet.errors import CheckpointError
from reconet.inference.backends.probe import hash_export
from reconet.models.trained import find_weights
from reconet.system.hardware import describe_cpu
from reconet.system.own_code import imported_sources
from reconet.system.reading import SETTINGS_BYTES, read_file
from reconet.system.run_files import LAST, LOG
from reconet.system.user_cache import FAST, cache_root, mark_in_use

CHOICE = "choice.json"  # in a folder, beside the file of the network
PACKAGES = ("reconet", "torch", "openvino", "onnxruntime", "nncf", "onnxscript")
SPARE_BYTES = 2**26  # room that a measurement leaves on the disk

Way = Literal["eager", "bf16", "exported", "compiled"]


class FastChoice(BaseModel):
    """The fastest way to run one network on one machine, and why."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    way: Way
    text: str  # what was chosen and why, for people
    network: str = ""  # its path, for people
    machine: str  # CPU and packages
    had_images: bool = False  # whether there were images to compare on that are not generated
    file: str = ""  # of an exported or compiled network, in the same folder
    digest: str = ""  # of that file
    smallest: int = 0  # shortest side of an image that the file takes


@dataclass(frozen=True, kw_only=True)
class FoundChoice:
    """A choice, and the folder where it is kept. One that could not be kept has none."""

    choice: FastChoice
    folder: Path | None = None

    @property
    def path(self) -> Path:
        """Return the file of the network."""
        assert self.folder is not None
        return self.folder / self.choice.file

    def __str__(self) -> str:
        kept = f"; kept in {self.folder.parent}" if self.folder else ""
        return f"fast: {self.choice.text}{kept}"


def hash_weights(source: Path) -> str:
    """Hash the weights of a run directory or a file."""
    return hash_export(find_weights(source), digest_bytes=8)


def choice_folders(source: Path, machine: str) -> list[Path]:
    """Return the folders that may hold the choice for a network, the best first."""
    digest = f"{hash_weights(source)} {_hash_own_code()} {machine}"
    name = blake2b(digest.encode(), digest_size=10).hexdigest()
    return [place / name for place in places(source)]


def is_export(source: Path) -> bool:
    """Tell whether a path is that of an exported file."""
    return not source.is_dir() and source.suffix != ".safetensors"


def has_fast_packages() -> bool:
    """Tell whether a package is installed that may run a network faster than torch."""
    return any(find_spec(name) is not None for name in ("openvino", "onnxruntime"))


def places(source: Path) -> list[Path]:
    """Return where choices for a network may be kept, the best place first.

    A run directory keeps its own. Files, shared folders and networks with a name are kept in the
    user's cache.
    """
    is_run = source.is_dir() and any((source / name).exists() for name in (LOG, LAST))
    return [*([source / FAST] if is_run else []), cache_root() / FAST]


def describe_machine(device: torch.device) -> str:
    """Name all that the speed of a network depends on, beside the network."""
    gpu = [torch.cuda.get_device_name(device)] if device.type == "cuda" else []
    return ", ".join([device.type, *gpu, describe_cpu(), *map(_version, PACKAGES)])


@cache
def _version(package: str) -> str:
    with suppress(PackageNotFoundError):
        return f"{package} {version(package)}"
    return f"no {package}"


def _hash_own_code() -> str:
    """Hash the files of --import: other code can make another network of the same weights."""
    state = blake2b(digest_size=8)
    for source in imported_sources():
        state.update(source.encode())
        with suppress(OSError):
            state.update(read_file(Path(source)))
    return state.hexdigest()


def read_choice(folder: Path) -> FoundChoice | None:
    """Read the choice that is kept in a folder, if there is one. Raise if it is damaged."""
    try:
        text = read_file(folder / CHOICE, limit=SETTINGS_BYTES, within=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"cannot read {folder / CHOICE}: {error.strerror}") from error
    try:
        choice = FastChoice.model_validate_json(text)
        if choice.file and (
            Path(choice.file).name != choice.file
            or hash_export(folder / choice.file) != choice.digest
        ):
            raise ValueError
    except (ValidationError, ValueError, OSError) as error:
        raise CheckpointError("the kept file was damaged") from error
    if choice.way == "compiled" and folder.parent != cache_root() / FAST:
        return None  # machine code in a folder that may be a stranger's
    if folder.parent == cache_root() / FAST:
        mark_in_use(folder)
    return FoundChoice(choice=choice, folder=folder)
