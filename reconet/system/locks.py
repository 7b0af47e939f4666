"""Lock files against other processes. A lock ends with the process that holds it."""

import errno
from typing import IO

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]


def lock_file(file: int | IO[bytes], *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file, alone or `shared`.

    Raise BlockingIOError if another process has it and `wait` is False, and OSError if the system
    or the file system has no locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOLCK, "this system has no locks")
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
