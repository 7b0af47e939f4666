"""One function on many things, in several processes."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

import cv2

from reconet.errors import DataError

T = TypeVar("T")
R = TypeVar("R")


def mapped(work: Callable[[T], R], things: Sequence[T], workers: int) -> Iterator[R]:
    """The results in order. 0 workers: in this process. `work` must be one that can be sent to a
    process, as a function of a module is; each gets it once, and things in chunks."""
    if workers == 0:
        yield from map(work, things)
        return
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _start, (work,))  # fork hurts threads
    try:
        chunk = max(1, min(32, len(things) // (4 * workers)))
        yield from pool.map(_work_here, things, chunksize=chunk)
    except BrokenProcessPool as error:
        raise DataError(
            "a worker process was ended, perhaps for want of memory; run it again with fewer "
            "workers."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


_here: list[Callable[[Any], Any]] = []  # the work of a worker process


def _start(work: Callable[[Any], Any]) -> None:
    cv2.setNumThreads(0)  # processes are the parallelism
    _here.append(work)


def _work_here(thing: Any) -> Any:
    return _here[0](thing)
