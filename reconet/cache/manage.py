"""List what the cache holds, and delete parts of it.

Only files that the cache itself writes are deleted, and only inside its folder. Links are neither
followed nor opened. What another process uses stays.
"""

import json
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reconet.cache.cache import FEATURES, IDENTITIES
from reconet.cache.lock import LOCK, lock_unused
from reconet.cache.projection import PROJECTIONS
from reconet.cache.store import ABOUT, CHECKSUMS, count_written
from reconet.errors import RecipeError, pick
from reconet.system.reading import SETTINGS_BYTES, WEIGHTS_BYTES, open_file, read_file
from reconet.system.user_cache import FAST, LABELS, USE, cache_root

DIGEST = re.compile(r"[0-9a-f]{20}")
PROJECTION = re.compile(r"([0-9a-f]{20})\.safetensors")
DATA_FILE = re.compile(r"\w+\.bin|\.(store|entries)\.json\.\w+\.part")
MASK = re.compile(r"\d{6,}\.png")
LABELS_ABOUT = "about.json"
LABELS_FILE = re.compile(
    r"(\d{6,}\.png|(all|train|val|test)\.tsv|mine\.yaml|about\.json)|\..+\.part"
)
NAME_DIGITS = 8  # of each digest, in a name
LONGEST_HEADER = 2**20  # of a projection, in bytes
DAY = 86400.0
FAST_ABOUT = "choice.json"
FAST_FILE = re.compile(r"network\.(xml|bin|onnx|pt2)|choice\.json")
BROKEN, MASKS = "unreadable", "masks"
TOLD_ELSEWHERE = {"kind", "bytes", "entries", "format"}


@dataclass(frozen=True, kw_only=True)
class Item:
    """A store of features, a projection, masks, or the fastest way to run a network."""

    name: str
    kind: str  # views, labels, whole images, projection, masks, fast, or unreadable
    path: Path
    done: int  # entries that are written
    total: int
    bytes: int  # on the disk
    last_use: float  # seconds since 1970
    in_use: bool  # a running process has it
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def dataset(self) -> str | None:
        """Return the name of the dataset, if it is known."""
        value = self.about.get("dataset")
        return value if isinstance(value, str) else None

    def as_dict(self) -> dict[str, Any]:
        """Return all facts, as JSON can hold them."""
        own = {key: value for key, value in vars(self).items() if key != "about"}
        last_use = datetime.fromtimestamp(self.last_use, UTC).isoformat(timespec="seconds")
        return {**self.about, **own, "path": str(self.path), "last_use": last_use}


@dataclass(frozen=True, kw_only=True)
class Cleared:
    """What was deleted, and what was left because a process uses it."""

    items: tuple[Item, ...]
    in_use: tuple[Item, ...]

    @property
    def bytes(self) -> int:
        """Return the room on the disk that is free now."""
        return sum(item.bytes for item in self.items)


def list_cache(root: Path | None = None) -> list[Item]:
    """List all that the cache holds, the last used first."""
    root = root or cache_root()
    items = [_store_item(path) for path in _stores(root)]
    items += [_masks_item(path) for path in _folders(root / LABELS)]
    items += [_fast_item(path) for path in _folders(root / FAST)]
    items += [_projection_item(path) for path in _projections(root)]
    return sorted(items, key=lambda item: -item.last_use)


def clear_cache(
    names: Sequence[str] = (),
    *,
    everything: bool = False,
    older_than: float | None = None,
    root: Path | None = None,
) -> Cleared:
    """Delete items by name or dataset, all of them, or those not used for `older_than` days."""
    if not names and not everything and older_than is None:
        raise RecipeError("say what to clear: names, --all, or --older-than DAYS.")
    if names and everything:
        raise RecipeError("--all clears everything; leave out the names, or --all.")
    items = list_cache(root)
    if names:
        items = _named(items, names)
    if older_than is not None:
        before = time.time() - older_than * DAY
        items = [item for item in items if item.last_use < before]
    deleted = {item.name: _delete(item) for item in items}
    return Cleared(
        items=tuple(item for item in items if deleted[item.name]),
        in_use=tuple(item for item in items if not deleted[item.name]),
    )


def _named(items: list[Item], names: Sequence[str]) -> list[Item]:
    """Return the items of these names; the name of a dataset means all of its items."""
    table: dict[str, set[str]] = {item.name: {item.name} for item in items}
    for item in items:
        if item.dataset is not None:
            table.setdefault(item.dataset, set()).add(item.name)
    if not table:
        raise RecipeError("the cache is empty.")
    wanted = set().union(*(pick(table, name, "name in the cache") for name in names))
    return [item for item in items if item.name in wanted]


def _entries(folder: Path, pattern: re.Pattern[str]) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder whose names are of the cache. A link is no such folder."""
    with suppress(OSError):
        if not folder.is_symlink():
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            yield from (entry for entry in entries if pattern.fullmatch(entry.name))


def _folders(folder: Path) -> Iterator[Path]:
    for entry in _entries(folder, DIGEST):
        if entry.is_dir(follow_symlinks=False):
            yield Path(entry.path)


def _stores(root: Path) -> Iterator[Path]:
    for family in _folders(root / FEATURES):
        yield from _folders(family)


def _projections(root: Path) -> Iterator[Path]:
    for entry in _entries(root / PROJECTIONS, PROJECTION):
        if entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def _store_item(directory: Path) -> Item:
    about = _read_about(directory)
    with lock_unused(directory) as unused:
        pass
    kind, total = about.get("kind"), about.get("entries")
    return Item(
        name=f"{directory.parent.name[:NAME_DIGITS]}-{directory.name[:NAME_DIGITS]}",
        kind=kind if isinstance(kind, str) else BROKEN,
        path=directory,
        done=count_written(directory),
        total=total if isinstance(total, int) else 0,
        bytes=sum(_bytes_on_disk(path) for path in _own_files(directory)),
        last_use=_last_use(directory),
        in_use=not unused,
        about={key: value for key, value in about.items() if key not in TOLD_ELSEWHERE},
    )


def _masks_item(directory: Path) -> Item:
    """Return the masks that were drawn from the annotations of one folder."""
    about = _read_about(directory, LABELS_ABOUT)
    with lock_unused(directory) as unused:
        pass
    files, total = _own_files(directory), about.get("entries")
    return Item(
        name=directory.name[:NAME_DIGITS],
        kind=MASKS,
        path=directory,
        done=sum(MASK.fullmatch(path.name) is not None for path in files),
        total=total if isinstance(total, int) else 0,
        bytes=sum(map(_bytes_on_disk, files)),
        last_use=_last_use(directory),
        in_use=not unused,
        about={key: value for key, value in about.items() if key not in TOLD_ELSEWHERE},
    )


def _fast_item(directory: Path) -> Item:
    """Return the fastest way to run one network, which `--fast` has found."""
    about = _read_about(directory, FAST_ABOUT)
    with lock_unused(directory) as unused:
        pass
    return Item(
        name=directory.name[:NAME_DIGITS],
        kind=FAST,
        path=directory,
        done=1,
        total=1,
        bytes=sum(map(_bytes_on_disk, _own_files(directory))),
        last_use=_last_use(directory),
        in_use=not unused,
        about={key: about[key] for key in ("network", "text") if key in about},
    )


def _read_about(directory: Path, name: str = ABOUT) -> dict[str, Any]:
    path = directory / name
    with suppress(OSError, ValueError):
        about = json.loads(read_file(path, limit=SETTINGS_BYTES, within=directory))
        return about if isinstance(about, dict) else {}
    return {}


def _last_use(directory: Path) -> float:
    """Return when a process opened a store last. Stores without such a mark have their own time."""
    for path in (directory / USE, directory / CHECKSUMS, directory):
        with suppress(OSError):
            return path.lstat().st_mtime
    return 0.0


def _projection_item(path: Path) -> Item:
    about = _read_header(path)
    return Item(
        name=path.stem[:NAME_DIGITS],
        kind="projection",
        path=path,
        done=1,
        total=1,
        bytes=_bytes_on_disk(path),
        last_use=_last_use(path),
        in_use=False,  # it is read once, and whole
        about=about,
    )


def _read_header(path: Path) -> dict[str, Any]:
    """Read what a projection says about itself: a safetensors file starts with its header."""
    with (
        suppress(OSError, ValueError, TypeError, KeyError),
        open_file(path, limit=WEIGHTS_BYTES, within=path.parent) as file,
    ):
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(length, LONGEST_HEADER)))
        about = json.loads(header["__metadata__"][ABOUT])
        return about if isinstance(about, dict) else {}
    return {}


def _own_files(directory: Path) -> list[Path]:
    """List the files of a store: only names that the cache writes, and no folders."""
    names = {LABELS: LABELS_FILE, FAST: FAST_FILE}.get(directory.parent.name, DATA_FILE)
    with suppress(OSError):
        return [
            Path(entry.path)
            for entry in os.scandir(directory)
            if not entry.is_dir(follow_symlinks=False)
            and (entry.name in {ABOUT, IDENTITIES, LOCK, USE} or names.fullmatch(entry.name))
        ]
    return []


def _bytes_on_disk(path: Path) -> int:
    """Return the room that a file takes, which is less than its length where it has holes."""
    with suppress(OSError):
        found = path.lstat()
        return found.st_blocks * 512 if stat.S_ISREG(found.st_mode) else 0
    return 0


def _delete(item: Item) -> bool:
    """Delete an item, unless a process uses it."""
    if item.kind == "projection":
        item.path.unlink(missing_ok=True)
        return True
    with lock_unused(item.path) as unused:
        if not unused:
            return False
        # Checksums first: without them no entry counts, if this process is killed now. Locks last.
        order = {CHECKSUMS: 0, LABELS_ABOUT: 0, FAST_ABOUT: 0, LOCK: 2, USE: 2}
        for path in sorted(_own_files(item.path), key=lambda path: order.get(path.name, 1)):
            path.unlink(missing_ok=True)
        for folder in (item.path, item.path.parent):
            with suppress(OSError):  # other stores, or files of somebody else
                folder.rmdir()
    return True
