"""Find the folder where this package keeps what it can make or fetch again."""

import os
from contextlib import suppress
from pathlib import Path

from reconet.system.files import lock_file, open_own

ROOT_VARIABLE = "RECONET_CACHE"
USE = ".use"  # in a folder of the cache: locked while somebody uses it
LABELS = "labels"  # masks that were drawn from annotations
FAST = "fast"  # the fastest ways to run networks


def cache_root() -> Path:
    """Return the folder of the cache: $RECONET_CACHE, or reconet in the user's cache folder."""
    if os.environ.get(ROOT_VARIABLE):
        return Path(os.environ[ROOT_VARIABLE]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "reconet"


def mark_in_use(directory: Path) -> None:
    """Keep a folder of the cache from being deleted as long as this process lives.

    The time of the mark is that of the last use.
    """
    if directory in _marked:
        return
    with suppress(OSError):  # a cache that can only be read is safe anyway
        handle = open_own(directory / USE, os.O_RDWR)
        _marked[directory] = handle
        os.utime(handle)
        lock_file(handle, shared=True)


_marked: dict[Path, int] = {}  # folders that this process uses, with their open marks
