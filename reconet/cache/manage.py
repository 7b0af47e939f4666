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

from reconet.cache.projection import PROJECTIONS
from reconet.cache.store import ABOUT, CHECKSUMS, LOCK, count_written, lock_unused
from reconet.cache.wanted import FEATURES
from reconet.errors import RecipeError, pick
from reconet.system.reading import SETTINGS_BYTES, WEIGHTS_BYTES, open_file, read_file
from reconet.system.user_cache import FAST, LABELS, USE, cache_root

DIGEST = re.compile(r"[0-9a-f]{20}")
PROJECTION = re.compile(r"([0-9a-f]{20})\.safetensors")
MASK = re.compile(r"\d{6,}\.png")
# The files of each kind of folder, beside its locks. The first says what the folder holds.
FILES = {
    FEATURES: (
        ABOUT,
        re.compile(r"\w+\.bin|(store|entries)\.json|\.(store|entries)\.json\.\w+\.part"),
    ),
    LABELS: (
        "about.json",
        re.compile(r"(\d{6,}\.png|(all|train|val|test)\.tsv|mine\.yaml|about\.json)|\..+\.part"),
    ),
    FAST: ("choice.json", re.compile(r"network\.(xml|bin|onnx|pt2)|choice\.json")),
}
# Without the first no entry counts, if a process is killed while it deletes. Locks go last.
ORDER = {CHECKSUMS: 0, "about.json": 0, "choice.json": 0, LOCK: 2, USE: 2}
NAME_DIGITS = 8  # of each digest, in a name
LONGEST_HEADER = 2**20  # of a projection, in bytes
DAY = 86400.0
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
    stores = [path for family in _entries(root / FEATURES) for path in _entries(family)]
    items = [_folder_item(path, FEATURES) for path in stores]
    items += [_folder_item(path, kind) for kind in (LABELS, FAST) for path in _entries(root / kind)]
    items += [_projection_item(path) for path in _entries(root / PROJECTIONS, PROJECTION)]
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
        table: dict[str, set[str]] = {item.name: {item.name} for item in items}
        for item in items:
            if item.dataset is not None:
                table.setdefault(item.dataset, set()).add(item.name)
        if not table:
            raise RecipeError("the cache is empty.")
        wanted = set().union(*(pick(table, name, "name in the cache") for name in names))
        items = [item for item in items if item.name in wanted]
    if older_than is not None:
        before = time.time() - older_than * DAY
        items = [item for item in items if item.last_use < before]
    deleted = {item.name: _delete(item) for item in items}
    return Cleared(
        items=tuple(item for item in items if deleted[item.name]),
        in_use=tuple(item for item in items if not deleted[item.name]),
    )


def _entries(folder: Path, pattern: re.Pattern[str] = DIGEST) -> Iterator[Path]:
    """Yield the entries of a folder whose names are of the cache: folders, or files of a pattern.

    A link is no such entry, and no such folder.
    """
    with suppress(OSError):
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            fits = entry.is_dir if pattern is DIGEST else entry.is_file
            named = pattern.fullmatch(entry.name) and not folder.is_symlink()
            if named and fits(follow_symlinks=False):
                yield Path(entry.path)


def _folder_item(directory: Path, group: str) -> Item:
    """Describe a folder of features, of masks that were drawn, or of a fast network."""
    about, files = _read_about(directory / FILES[group][0]), _own_files(directory, group)
    with lock_unused(directory) as unused:
        pass
    total, kind = about.get("entries"), about.get("kind")
    name, done = directory.name[:NAME_DIGITS], 1
    if group == FEATURES:
        name, done = f"{directory.parent.name[:NAME_DIGITS]}-{name}", count_written(directory)
        kind = kind if isinstance(kind, str) else "unreadable"
        about = {key: value for key, value in about.items() if key not in TOLD_ELSEWHERE}
    elif group == LABELS:
        kind, done = "masks", sum(MASK.fullmatch(path.name) is not None for path in files)
        about = {key: value for key, value in about.items() if key not in TOLD_ELSEWHERE}
    else:
        kind, total = FAST, 1
        about = {key: about[key] for key in ("network", "text") if key in about}
    return Item(
        name=name,
        kind=kind,
        path=directory,
        done=done,
        total=total if isinstance(total, int) else 0,
        bytes=sum(map(_bytes_on_disk, files)),
        last_use=_last_use(directory),
        in_use=not unused,
        about=about,
    )


def _read_about(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        about = json.loads(read_file(path, limit=SETTINGS_BYTES, within=path.parent))
        return about if isinstance(about, dict) else {}
    return {}


def _last_use(path: Path) -> float:
    """Return when a process opened a store last. Stores without such a mark have their own time."""
    for place in (path / USE, path / CHECKSUMS, path):
        with suppress(OSError):
            return place.lstat().st_mtime
    return 0.0


def _projection_item(path: Path) -> Item:
    """Describe a projection by what it says itself: a safetensors file starts with its header."""
    about = None
    with (
        suppress(OSError, ValueError, TypeError, KeyError),
        open_file(path, limit=WEIGHTS_BYTES, within=path.parent) as file,
    ):
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(min(length, LONGEST_HEADER)))
        about = json.loads(header["__metadata__"][ABOUT])
    return Item(
        name=path.stem[:NAME_DIGITS],
        kind="projection",
        path=path,
        done=1,
        total=1,
        bytes=_bytes_on_disk(path),
        last_use=_last_use(path),
        in_use=False,  # it is read once, and whole
        about=about if isinstance(about, dict) else {},
    )


def _own_files(directory: Path, group: str) -> list[Path]:
    """List the files of a folder: only names that the cache writes, and no folders."""
    with suppress(OSError):
        return [
            Path(entry.path)
            for entry in os.scandir(directory)
            if not entry.is_dir(follow_symlinks=False)
            and (entry.name in {LOCK, USE} or FILES[group][1].fullmatch(entry.name))
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
    group = item.path.parent.name
    with lock_unused(item.path) as unused:
        if not unused:
            return False
        files = _own_files(item.path, group if group in FILES else FEATURES)
        for path in sorted(files, key=lambda path: ORDER.get(path.name, 1)):
            path.unlink(missing_ok=True)
        for folder in (item.path, item.path.parent):
            with suppress(OSError):  # other stores, or files of somebody else
                folder.rmdir()
    return True
