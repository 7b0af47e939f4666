"""Keep the arrays of many entries in a few memory-mapped files, each entry with a checksum.

A store is a folder:

    store.json      what it holds, for people and for `reconet cache list`
    <part>.bin      one array after another, each in a slot of the part's largest shape
    shapes.bin      the shape that each array really has
    checksums.bin   a CRC-32 per entry, over its shapes and arrays; 0: not written yet

Many processes may write at once, each its own entries. An entry counts only once its checksum is
there, so a process that is killed leaves nothing half done. A file that was cut short is made long
again, and what it lost no longer fits its checksum.
"""

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reconet.errors import DataError
from reconet.system.files import write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import read_file

FORMAT = 2
LABEL = "label"  # the part that holds labels
ABOUT, SHAPES, CHECKSUMS = "store.json", "shapes.bin", "checksums.bin"
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Part:
    """One array of every entry, such as c4: its type and its largest shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Return the size of a slot."""
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape))


@dataclass(frozen=True)
class Store:
    """Entries 0 to `count` - 1, each with one array per part."""

    directory: Path
    count: int
    parts: Mapping[str, Part]

    @property
    def bytes(self) -> int:
        """Return the size of the whole store, as far as it is filled or not."""
        return self.count * sum(part.bytes for part in self.parts.values())

    @property
    def is_writable(self) -> bool:
        """Return whether entries can be written. A disk may be read-only."""
        return os.access(self.directory, os.W_OK)

    def create(self, about: Mapping[str, object]) -> None:
        """Make the files, or make them long again; what is written stays."""
        self.directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": FORMAT, "entries": self.count, "bytes": self.bytes, **about})
        write_text(self.directory / ABOUT, text + "\n")
        for name, size in self._sizes().items():
            path = self.directory / name
            with path.open("ab"):
                os.truncate(path, size)

    def has_all_files(self) -> bool:
        """Return whether no file is missing or cut short."""
        paths = {self.directory / name: size for name, size in self._sizes().items()}
        return all(path.is_file() and path.stat().st_size == size for path, size in paths.items())

    def missing_bytes(self) -> int:
        """Return how much room on the disk the missing entries need. The store may not exist."""
        left = max(0, self.count - count_written(self.directory))
        return left * (self.bytes // max(1, self.count))

    def missing(self) -> list[int]:
        """List the entries that are not written yet."""
        return [int(index) for index in np.flatnonzero(self._checksums == 0)]

    def damaged(self, progress: Progress = SILENT) -> list[int]:
        """Read everything, and list the entries that do not fit their checksums."""
        written = np.flatnonzero(self._checksums)
        progress.start(len(written), "check the features")
        found = []
        for index in written.tolist():
            if not self.is_whole(index):
                found.append(index)
            progress.advance()
        return found

    def is_whole(self, index: int) -> bool:
        """Return whether an entry is written and fits its checksum."""
        return bool(self._checksums[index]) and self._checksum(index) == self._checksums[index]

    def forget(self, indices: list[int]) -> None:
        """Mark entries as not written."""
        self._checksums[indices] = 0

    def write(self, index: int, arrays: Arrays) -> None:
        """Keep the arrays of one entry."""
        for place, (name, part) in enumerate(self.parts.items()):
            array = np.ascontiguousarray(arrays[name], part.dtype)
            if array.ndim != len(part.shape) or any(np.greater(array.shape, part.shape)):
                raise DataError(f"{name} is {array.shape}, and {self.directory} has {part.shape}.")
            self._shapes[index, place, : array.ndim] = array.shape
            self._data[name][index, : array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
        self._checksums[index] = self._checksum(index)

    def read(self, index: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of one entry, as views of the files."""
        return {name: self._array(name, index) for name in self.parts}

    def _array(self, name: str, index: int) -> NDArray[Any]:
        part, place = self.parts[name], list(self.parts).index(name)
        shape = tuple(self._shapes[index, place, : len(part.shape)].tolist())
        dtype = np.dtype(part.dtype)
        length = min(int(np.prod(shape)) * dtype.itemsize, part.bytes)
        data = self._data[name][index, :length]
        return data.view(dtype).reshape(shape) if min(shape) > 0 else np.empty(shape, dtype)

    def _checksum(self, index: int) -> int:
        shapes = self._shapes[index]
        largest = np.array([_padded(part.shape) for part in self.parts.values()])
        if (shapes < 0).any() or (shapes > largest).any():
            return 0
        value = zlib.crc32(shapes.tobytes())
        for name in self.parts:
            value = zlib.crc32(np.ascontiguousarray(self._array(name, index)).data, value)
        return value or 1

    def _sizes(self) -> dict[str, int]:
        data = {f"{name}.bin": self.count * part.bytes for name, part in self.parts.items()}
        return data | {SHAPES: self.count * len(self.parts) * 16, CHECKSUMS: self.count * 4}

    @cached_property
    def _data(self) -> dict[str, NDArray[np.uint8]]:
        return {
            name: self._map(f"{name}.bin", np.uint8, (self.count, part.bytes))
            for name, part in self.parts.items()
        }

    @cached_property
    def _shapes(self) -> NDArray[np.int32]:
        return self._map(SHAPES, np.int32, (self.count, len(self.parts), 4))

    @cached_property
    def _checksums(self) -> NDArray[np.uint32]:
        return self._map(CHECKSUMS, np.uint32, (self.count,))

    def _map(self, name: str, dtype: type, shape: tuple[int, ...]) -> NDArray[Any]:
        mode: Literal["r", "r+"] = "r+" if self.is_writable else "r"
        return np.memmap(self.directory / name, dtype, mode, shape=shape)

    def __getstate__(self) -> dict[str, object]:
        """Send to another process what opens the files again, not the files."""
        return {"directory": self.directory, "count": self.count, "parts": self.parts}


@dataclass(frozen=True)
class StoreGroup:
    """Stores of the same entries, each with other parts, read as one."""

    stores: tuple[Store, ...]

    @property
    def count(self) -> int:
        """Return the number of entries."""
        return self.stores[0].count

    def read(self, index: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of one entry from all stores."""
        return {name: array for store in self.stores for name, array in store.read(index).items()}


def count_written(directory: Path) -> int:
    """Count the entries of a store that are written, without opening it."""
    with suppress(OSError):
        data = read_file(directory / CHECKSUMS, within=directory)
        return int(np.count_nonzero(np.frombuffer(data[: len(data) // 4 * 4], np.uint32)))
    return 0


def _padded(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape + (0,) * (4 - len(shape))
