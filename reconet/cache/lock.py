"""Lock stores: one process builds at a time, many use, and nobody deletes what is in use.

    .lock   held alone while a store is checked and built
    .use    shared by all processes that read the store, as long as they do; its time is that of
            the last use

Locks end with their process, however that ends. A file system without locks has none of this: two
builders then write the same bytes.
"""

import os
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from reconet.cache.store import Store
from reconet.errors import OutputError
from reconet.system.files import lock_file, open_own
from reconet.system.progress import SILENT, Progress
from reconet.system.user_cache import USE

LOCK = ".lock"


@contextmanager
def lock_store(store: Store, progress: Progress = SILENT) -> Iterator[None]:
    """Let one training build a store at a time. Others wait for it."""
    try:
        handle = _lock_alone(store.directory, progress)
    except OSError as error:
        raise OutputError(f"cannot use {store.directory}: {error.strerror}.") from error
    try:
        yield
    finally:
        os.close(handle)


def _lock_alone(directory: Path, progress: Progress) -> int:
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        handle = open_own(directory / LOCK, os.O_RDWR)
        with suppress(OSError):
            try:
                lock_file(handle, wait=False)
            except BlockingIOError:
                progress.note(f"waiting for another training that builds {directory}")
                lock_file(handle)
        with suppress(OSError):
            if os.path.samestat(os.fstat(handle), os.stat(directory / LOCK)):
                return handle
        os.close(handle)  # the store was deleted while this process waited


def mark_in_use(store: Store) -> None:
    """Keep a store from being deleted as long as this object lives. Call it within lock_store()."""
    with suppress(OSError):  # a cache that can only be read is safe anyway
        handle = open_own(store.directory / USE, os.O_RDWR)
        weakref.finalize(store, os.close, handle)
        os.utime(handle)
        lock_file(handle, shared=True)


@contextmanager
def lock_unused(directory: Path) -> Iterator[bool]:
    """Lock a store against builders and users. Gives False if another process has it."""
    with ExitStack() as stack:
        yield all(_try_lock(directory / name, stack) for name in (LOCK, USE))


def _try_lock(path: Path, stack: ExitStack) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return True  # nobody has used it yet
    stack.callback(os.close, handle)
    try:
        lock_file(handle, wait=False)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
