"""Keep an array of many entries in a memory-mapped file, each entry with a checksum.

A store is a folder:

    store.json      what it holds, for people and for `reconet cache list`
    <name>.bin      one array after another, each in a slot of the largest shape
    shapes.bin      the shape that each array really has
    checksums.bin   a CRC-32 per entry, over its shape and array; 0: not written yet
    .lock           held alone while the store is checked and built
    .use            shared by all processes that read the store; its time is that of the last use

Many processes may write at once, each its own entries. An entry counts only once its checksum is
there, so a process that is killed leaves nothing half done. A file that was cut short is made long
again, and what it lost no longer fits its checksum.

Locks end with their process, however that ends. A file system without locks has none of this: two
builders then write the same bytes.
"""

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reconet.errors import DataError, OutputError
from reconet.system.files import lock_file, open_own, write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import read_file
from reconet.system.user_cache import USE

FORMAT = 2
LABEL = "label"  # the name of a store of labels. Others have the name of a stage, such as c4
ABOUT, SHAPES, CHECKSUMS, LOCK = "store.json", "shapes.bin", "checksums.bin", ".lock"
AXES = 4  # numbers of a shape in shapes.bin, the last ones 0


@dataclass(frozen=True)
class Store:
    """Entries 0 to `count` - 1, each one array of `dtype`, at most as large as `shape`."""

    directory: Path
    count: int
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def slot_bytes(self) -> int:
        """Return the size of one entry at most."""
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape))

    @property
    def bytes(self) -> int:
        """Return the size of the whole store, as far as it is filled or not."""
        return self.count * self.slot_bytes

    @property
    def is_writable(self) -> bool:
        """Return whether entries can be written. A disk may be read-only."""
        return os.access(self.directory, os.W_OK)

    @property
    def _sizes(self) -> dict[Path, int]:
        sizes = {f"{self.name}.bin": self.slot_bytes, SHAPES: 4 * AXES, CHECKSUMS: 4}
        return {self.directory / name: self.count * size for name, size in sizes.items()}

    def create(self, about: Mapping[str, object]) -> None:
        """Make the files, or make them long again; what is written stays."""
        self.directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": FORMAT, "entries": self.count, "bytes": self.bytes, **about})
        write_text(self.directory / ABOUT, text + "\n")
        for path, size in self._sizes.items():
            with path.open("ab"):
                os.truncate(path, size)

    def has_all_files(self) -> bool:
        """Return whether no file is missing or cut short."""
        sizes = self._sizes.items()
        return all(path.is_file() and path.stat().st_size == size for path, size in sizes)

    def missing_bytes(self) -> int:
        """Return how much room on the disk the missing entries need. The store may not exist."""
        return max(0, self.count - count_written(self.directory)) * self.slot_bytes

    def missing(self) -> list[int]:
        """List the entries that are not written yet."""
        return [int(index) for index in np.flatnonzero(self._checksums == 0)]

    def damaged(self, progress: Progress = SILENT) -> list[int]:
        """Read everything, and list the entries that do not fit their checksums."""
        written = np.flatnonzero(self._checksums)
        progress.start(len(written), "check the features")
        found = []
        for index in written.tolist():
            if self._checksum(index) != self._checksums[index]:
                found.append(index)
            progress.advance()
        return found

    def forget(self, indices: list[int]) -> None:
        """Mark entries as not written."""
        self._checksums[indices] = 0

    def write(self, index: int, array: NDArray[Any]) -> None:
        """Keep the array of one entry."""
        array = np.ascontiguousarray(array, self.dtype)
        if array.ndim != len(self.shape) or any(np.greater(array.shape, self.shape)):
            raise DataError(f"{self.name} is {array.shape}, and {self.directory} has {self.shape}.")
        self._shapes[index, : array.ndim] = array.shape
        self._data[index, : array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
        self._checksums[index] = self._checksum(index)

    def read(self, index: int) -> NDArray[Any]:
        """Return the array of one entry, as a view of the file."""
        shape = tuple(self._shapes[index, : len(self.shape)].tolist())
        dtype = np.dtype(self.dtype)
        length = min(int(np.prod(shape)) * dtype.itemsize, self.slot_bytes)
        data = self._data[index, :length]
        return data.view(dtype).reshape(shape) if min(shape) > 0 else np.empty(shape, dtype)

    def _checksum(self, index: int) -> int:
        shape = self._shapes[index]
        if (shape < 0).any() or (shape > [*self.shape, *[0] * (AXES - len(self.shape))]).any():
            return 0
        array = np.ascontiguousarray(self.read(index))
        return zlib.crc32(array.data, zlib.crc32(shape.tobytes())) or 1

    @cached_property
    def _data(self) -> NDArray[np.uint8]:
        return self._map(f"{self.name}.bin", np.uint8, (self.count, self.slot_bytes))

    @cached_property
    def _shapes(self) -> NDArray[np.int32]:
        return self._map(SHAPES, np.int32, (self.count, AXES))

    @cached_property
    def _checksums(self) -> NDArray[np.uint32]:
        return self._map(CHECKSUMS, np.uint32, (self.count,))

    def _map(self, name: str, dtype: type, shape: tuple[int, ...]) -> NDArray[Any]:
        mode: Literal["r", "r+"] = "r+" if self.is_writable else "r"
        return np.memmap(self.directory / name, dtype, mode, shape=shape)

    def __getstate__(self) -> dict[str, object]:
        """Send to another process what opens the files again, not the files."""
        names = ("directory", "count", "name", "dtype", "shape")
        return {name: getattr(self, name) for name in names}


def count_written(directory: Path) -> int:
    """Count the entries of a store that are written, without opening it."""
    with suppress(OSError):
        data = read_file(directory / CHECKSUMS, within=directory)
        return int(np.count_nonzero(np.frombuffer(data[: len(data) // 4 * 4], np.uint32)))
    return 0


@contextmanager
def lock_store(directory: Path, progress: Progress = SILENT) -> Iterator[None]:
    """Let one training build a store at a time. Others wait for it."""
    try:
        handle = _lock_alone(directory, progress)
    except OSError as error:
        raise OutputError(f"cannot use {directory}: {error.strerror}.") from error
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


@contextmanager
def lock_unused(directory: Path) -> Iterator[bool]:
    """Lock a store against builders and users. Gives False if another process has it."""
    with ExitStack() as stack:
        yield all(_try_lock(directory / name, stack) for name in (LOCK, USE))


def _try_lock(path: Path, stack: ExitStack) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        stack.callback(os.close, handle)
        lock_file(handle, wait=False)
    except BlockingIOError:
        return False
    except OSError:
        pass  # nobody has used it yet, or the file system has no locks
    return True
