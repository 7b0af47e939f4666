"""Writing files so that nobody ever reads half of one."""

import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from reconet.errors import OutputError


def write_atomic(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place in one move.

    A crash, a full disk or a kill leaves the old file (or none) and at most a stray temporary one.
    """
    path = path.resolve()  # a link stays a link: what it points to is replaced
    if path.exists() and not path.is_file():
        raise OutputError(f"cannot write {path}: it is there, and no ordinary file.")
    try:
        _write(path, write)
    except (OSError, RuntimeError) as error:
        # torch.save hides the system's error (a full disk, say) behind one of its own.
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError):
            raise
        raise OutputError(f"cannot write {path}: {cause.strerror or cause}.") from error


def _write(path: Path, write: Callable[[BinaryIO], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp makes files that only their owner can read
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def remove_strays(path: Path) -> None:
    """Remove what killed writers of `path` have left. Only for its one writer, before it writes."""
    for stray in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        stray.unlink(missing_ok=True)


def check_folder(
    path: Path, ours: Callable[[Path], bool] = lambda folder: True, option: str = "--out"
) -> None:
    """A folder is to be written to `path`: say that it cannot be before anything is computed.

    One that is there and not empty is renewed if it is `ours`, and else refused.
    """
    present = next((place for place in (path, *path.absolute().parents) if place.exists()), path)
    if present.exists() and not present.is_dir():
        why = "" if present == path else f"{path} cannot be made: "
        raise OutputError(f"{option} names a folder; {why}{present} is a file.")
    if not os.access(present, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {path}: {os.strerror(errno.EACCES)}.")
    if path.is_dir() and any(path.iterdir()) and not ours(path):
        raise OutputError(f"{path} is there and holds other things; name another {option}.")


def check_file(path: Path, ours: Callable[[Path], bool] = lambda file: True) -> None:
    """The same for a file."""
    if path.exists() and not path.is_file():
        raise OutputError(f"--out names a file; {path} is there, and no ordinary file.")
    check_folder(path.parent)
    if path.is_file() and path.stat().st_size and not ours(path):
        raise OutputError(f"{path} is there and something else; name another --out.")


@contextmanager
def made_beside(path: Path) -> Iterator[Path]:
    """Where to make `path`, and what belongs to it, so that it can be looked at before it counts.

    If all went well the files are put in place, in the order of their names; else what was there
    before stays.
    """
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}.") from error
    try:
        yield folder / path.name
        for made in sorted(folder.iterdir()):
            _move(made, path.with_name(made.name))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _move(made: Path, path: Path) -> None:
    try:
        os.replace(made, path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}.") from error


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    write_atomic(path, lambda file: file.write(data))


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
