"""Find the network that a user means: by a path, or by a name.

A path that exists comes first: a run directory, a .safetensors file or an export. Then come the
names of networks in this package, then the names of public ones, which are downloaded.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from reconet import zoo
from reconet.errors import CheckpointError
from reconet.models.trained import read_info
from reconet.models.weights import find_shared
from reconet.system.distributed import Processes
from reconet.system.files import check_stays
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import SETTINGS_BYTES, read_file
from reconet.system.run_files import BEST, LAST, LOG, RECIPE

PRETRAINED = Path(__file__).parent.parent / "pretrained"  # networks of the package
RUN_FILES = (BEST, LAST, LOG, RECIPE)
LICENCE_LINE = re.compile(r'^license: "(.*)"$', re.MULTILINE)  # of a card


@dataclass(frozen=True, kw_only=True)
class FoundNetwork:
    """A network, and the name that it was found by. One that was found by its path has none."""

    path: Path
    name: str = ""

    def __str__(self) -> str:
        return self.name or str(self.path)

    @property
    def short_name(self) -> str:
        """Return the name for use in names of files."""
        return self.name.replace("/", "-")

    def home(self, file: str) -> Path:
        """Return where results go by default: into the run directory, or beside the file.

        Nothing is written beside a network with a name. Its results go into the working directory.
        """
        if self.name:
            return Path(f"{file}-{self.short_name}")
        folder = self.path if self.path.is_dir() else self.path.parent
        return check_stays(folder / file, folder)


@dataclass(frozen=True, kw_only=True)
class ShippedNetwork(zoo.ListedNetwork):
    """A network of the package, with what its file and its card say about it."""

    path: str


def find_network(
    source: str | Path, *, shipped: Path | None = None, progress: Progress = SILENT
) -> FoundNetwork:
    """Find a network by its path or name. `shipped` is a folder of networks with names."""
    files = shipped_networks(shipped)
    path, name = Path(source), str(source)
    has_name = name in files or name in zoo.CATALOGUE
    if path.exists() and not has_name:
        return FoundNetwork(path=path)
    if path.is_file() or any((path / file).exists() for file in RUN_FILES):
        progress.note(f"{name} is a path here. It is used, and not the network of this name.")
        return FoundNetwork(path=path)
    if path.exists():
        progress.note(f"the folder {name} holds no network. The network of this name is used.")
    if name in files:
        return FoundNetwork(path=files[name], name=name)
    if has_name:
        return FoundNetwork(path=zoo.open_public(name, progress), name=name)
    raise _not_found(path, [*files, *zoo.CATALOGUE])


def find_in_processes(
    source: str | Path, processes: Processes, progress: Progress = SILENT
) -> FoundNetwork:
    """Find a network on several processes. The first one of each machine downloads it."""
    with processes.together():
        if processes.local_rank == 0:
            find_network(source, progress=progress)
    return find_network(source)


def find_pretrained(source: str | Path, *, shipped: Path | None = None) -> Path:
    """Find a network by its path, its name, or its id on the hub, "owner/name"."""
    has_name = str(source) in shipped_networks(shipped) or str(source) in zoo.CATALOGUE
    return find_network(source, shipped=shipped).path if has_name else find_shared(source)


def shipped_networks(folder: Path | None = None) -> Mapping[str, Path]:
    """Return the files of the networks in this package, by name."""
    return {path.stem: path for path in sorted((folder or PRETRAINED).glob("*.safetensors"))}


def describe_shipped(words: Sequence[str] = ()) -> list[ShippedNetwork]:
    """Describe the networks in this package that have all of these words."""
    described = [_describe(name, path) for name, path in shipped_networks().items()]
    return [one for one in described if zoo.has_words(one, words)]


def _describe(name: str, path: Path) -> ShippedNetwork:
    info = read_info(path)
    card = read_file(path.with_suffix(".md"), limit=SETTINGS_BYTES).decode()
    licence = LICENCE_LINE.search(card)
    return ShippedNetwork(
        name=name,
        source="reconet",
        context=info.recipe.model.context,
        backbone=info.recipe.model.backbone,
        dataset=info.recipe.data.name,
        miou=info.score["miou"],
        megabytes=round(path.stat().st_size / 1e6),
        licence=licence[1] if licence else "not stated",
        path=str(path),
    )


def _not_found(path: Path, names: list[str]) -> CheckpointError:
    beside: list[str] = []
    with suppress(OSError):  # a folder that may not be read
        beside = [str(path.with_name(other.name)) for other in path.parent.iterdir()]
    near = [
        *get_close_matches(str(path), names, n=3),
        *get_close_matches(str(path), beside, n=2, cutoff=0.8),
    ]
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return CheckpointError(
        f"no network {str(path)!r}: there is no such path, and no network of this name.{hint} "
        "`reconet zoo` lists the names."
    )
