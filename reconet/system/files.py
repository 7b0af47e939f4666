"""Write files so that nobody ever reads half of one, and lock them against other processes."""

import errno
import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import IO, BinaryIO

from reconet.errors import OutputError
from reconet.system.reading import SAFELY

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]


def write_atomic(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it to `path`.

    A crash, a full disk or a kill leaves the old file as it was. At most a temporary file remains.
    """
    path = _follow(path)
    if path.exists() and not path.is_file():
        raise OutputError(f"cannot write {path}: it exists and is no ordinary file.")
    try:
        _write(path, write)
    except (OSError, RuntimeError) as error:
        # torch.save hides an error of the system, such as a full disk, behind one of its own.
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError):
            raise
        raise OutputError(f"cannot write {path}: {cause.strerror or cause}.") from error


def _follow(path: Path) -> Path:
    """Return the file that a link points to: it is replaced, and the link stays a link.

    A link may not lead out of its folder. Otherwise a folder from a stranger could make us write
    anywhere.
    """
    folder, target = path.parent.resolve(), _resolve(path)
    if path.is_symlink() and not target.is_relative_to(folder):
        raise OutputError(f"cannot write {path}: it is a link that leads out of its folder.")
    return target


def _resolve(path: Path) -> Path:
    """Follow all links, or raise an error if they lead in a circle or to a missing folder."""
    try:
        target = path.resolve()
        if target.is_symlink():
            raise RuntimeError  # as Python does before 3.13
    except RuntimeError:
        raise OutputError(f"cannot write {path}: it is a link that leads to itself.") from None
    links = [place for place in (path, *path.parents) if place.is_symlink()]
    if any(not place.exists() and not place.resolve().parent.is_dir() for place in links):
        raise OutputError(f"cannot write {path}: a link leads to a folder that does not exist.")
    return target


def check_stays(path: Path, folder: Path, option: str = "--out") -> Path:
    """Raise an error if a link makes a path in a folder lead out of it. Return the path."""
    if not _resolve(path).is_relative_to(folder.resolve()):
        raise OutputError(
            f"cannot write {path}: it is a link that leads out of its folder. "
            f"Name another place by {option}."
        )
    return path


def open_own(path: Path, flags: int) -> int:
    """Open a file to append to or to lock, and make it if need be: never a link, pipe or device."""
    try:
        safe = getattr(os, "O_NOFOLLOW", 0) | SAFELY
        handle = os.open(path, flags | os.O_CREAT | safe, 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link", str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
    return handle


def lock_file(file: int | IO[bytes], *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file, alone or `shared`, until it is closed or this process ends.

    Raise BlockingIOError if another process has it and `wait` is False, and OSError if the system
    or the file system has no locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOLCK, "this system has no locks")
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)


def append_text(path: Path, text: str) -> None:
    """Append to a file of ours."""
    try:
        with os.fdopen(open_own(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
            file.write(text.encode())
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}.") from error


def make_folders(folder: Path) -> None:
    """Make a folder, and those above it. Path.mkdir recurses, and folders may be 1,000 deep."""
    missing = list(takewhile(lambda place: not place.is_dir(), (folder, *folder.parents)))
    for place in reversed(missing):
        place.mkdir(exist_ok=True)


def _write(path: Path, write: Callable[[BinaryIO], object]) -> None:
    make_folders(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp makes files that only their owner can read
        os.replace(name, path)
    except BaseException:  # after Ctrl-C too, no half file stays
        Path(name).unlink(missing_ok=True)
        raise


def remove_temporary_files(path: Path) -> None:
    """Remove the temporary files that killed writers of `path` have left.

    Call it before writing, and only where no other process can be writing the same file.
    """
    for stray in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        stray.unlink(missing_ok=True)


def check_output_folder(
    path: Path, may_replace: Callable[[Path], bool] = lambda folder: True, option: str = "--out"
) -> None:
    """Raise an error before a long computation if its results cannot be written to a folder.

    `may_replace` is asked about a folder that exists and is not empty.
    """
    present = next((place for place in (path, *path.absolute().parents) if place.exists()), path)
    if present.exists() and not present.is_dir():
        why = "" if present == path else f"{path} cannot be made: "
        raise OutputError(f"{option} names a folder; {why}{present} is a file.")
    if not os.access(present, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {path.absolute()}: {os.strerror(errno.EACCES)}.")
    if path.is_dir() and any(path.iterdir()) and not may_replace(path):
        raise OutputError(f"{path} exists and holds other files; name another {option}.")


def check_output_file(
    path: Path, may_replace: Callable[[Path], bool] = lambda file: True, option: str = "--out"
) -> None:
    """Raise an error before a long computation if its result cannot be written to a file.

    `may_replace` is asked about a file that exists and is not empty.
    """
    if path.exists() and not path.is_file():
        raise OutputError(f"{option} names a file; {path} exists and is no ordinary file.")
    check_output_folder(path.parent, option=option)
    if path.is_file() and path.stat().st_size and not may_replace(path):
        raise OutputError(f"{path} exists and is another kind of file; name another {option}.")


@contextmanager
def staged_write(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to, and move the result to `path` if the block succeeds.

    All files beside the temporary one are moved too, in the order of their names. If the block
    fails, the files that were there before stay.
    """
    path = _follow(path)
    try:
        make_folders(path.parent)
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


def readable_bytes(count: float) -> str:
    """Format a size for people: 512 B, 3.4 MB, 12 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 99.5 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
