"""Open files to read: ordinary files only, no larger than expected, no link that leads away.

A pipe waits for ever, a device never ends, and a link in a folder of a stranger may lead to any
file of this machine. All errors are OSError, so that callers tell them like a missing file.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MEBIBYTE = 2**20
SETTINGS_BYTES = MEBIBYTE  # of a recipe, a list of classes, a small record
TEXT_BYTES = 1024 * MEBIBYTE  # of a log, a list of images, annotations
WEIGHTS_BYTES = 64 * 1024 * MEBIBYTE

# Of these, Windows has only the last: without it, bytes would be taken for text.
SAFELY = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


def open_file(path: Path, *, limit: int, within: Path | None = None) -> BinaryIO:
    """Open an ordinary file of at most `limit` bytes.

    With `within`, the file must lie in that folder: links may not lead out of it.
    """
    if within is not None:
        _check_within(path, within)
    # A pipe without a writer would block here, were it not for O_NONBLOCK.
    handle = os.open(path, os.O_RDONLY | SAFELY)
    try:
        _check_kind(os.fstat(handle), path, limit)
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def check_file(path: Path, *, limit: int, within: Path | None = None) -> Path:
    """Check a file that a library will open by its name. Return the path."""
    open_file(path, limit=limit, within=within).close()
    return path


def is_folder_entry(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a folder, or a link to one. A link to itself is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def read_file(path: Path, *, limit: int = TEXT_BYTES, within: Path | None = None) -> bytes:
    """Read an ordinary file as a whole."""
    with open_file(path, limit=limit, within=within) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(min(limit, size + MEBIBYTE) + 1)
    if len(data) > limit:  # it has grown since it was opened
        raise _too_large(path, len(data), limit)
    return data


def read_text(path: Path, *, limit: int = TEXT_BYTES, within: Path | None = None) -> str:
    """Read an ordinary file of UTF-8 text. A byte order mark at its beginning is left out."""
    return read_file(path, limit=limit, within=within).decode("utf-8-sig")


def _check_within(path: Path, folder: Path) -> None:
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except RuntimeError as error:  # links that lead in a circle, before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error
    if not inside:
        raise OSError(errno.EPERM, "it is a link that leads out of its folder", str(path))


def _check_kind(status: os.stat_result, path: Path, limit: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
        raise OSError(number, f"it is {kind}, not an ordinary file", str(path))
    if status.st_size > limit:
        raise _too_large(path, status.st_size, limit)


def _too_large(path: Path, size: int, limit: int) -> OSError:
    reason = f"it has {size:,} bytes, more than the {limit:,} that are read"
    return OSError(errno.EFBIG, reason, str(path))
