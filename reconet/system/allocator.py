"""Keep freed memory for the next tensors, where the C library lets us.

A training frees and allocates the same large tensors in every step. The C library of Linux gives
such blocks back to the system at once, and each new one costs a page fault per 4096 bytes.

A server is the other way round. Left alone, the C library learns from every large block that is
freed to keep larger ones, up to 32 MB. Tensors of ever other sizes then fill its heaps with holes.
To ask for the usual sizes turns this learning off.
"""

import ctypes
import os

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # names of settings in malloc.h
MMAP_MAX_DEFAULT, TRIM_DEFAULT = 65536, 128 * 1024
NEVER = -1
USERS_OWN = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")


def keep_freed_memory(keep: bool = True) -> bool:
    """Keep freed memory in this process, or give it back as usual. Tell whether that worked.

    Nothing is changed if the user has chosen an allocator or its settings.
    """
    if any(name in os.environ for name in USERS_OWN):
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  other libraries have a mallopt that does nothing
        set_option = library.mallopt
    except (OSError, TypeError, AttributeError):  # not Linux, or another C library
        return False
    blocks, threshold = (0, NEVER) if keep else (MMAP_MAX_DEFAULT, TRIM_DEFAULT)
    return bool(set_option(MMAP_MAX, blocks)) and bool(set_option(TRIM_THRESHOLD, threshold))
