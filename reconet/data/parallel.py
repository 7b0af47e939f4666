"""Apply one function to many items, in several processes."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

import cv2

from reconet.errors import DataError

T = TypeVar("T")
R = TypeVar("R")


def map_in_processes(
    work: Callable[[T], R], items: Sequence[T], workers: int, *, chunk: int | None = None
) -> Iterator[R]:
    """Yield the results in order. With 0 workers this process does the work.

    `work` must be picklable, as a function of a module is. Each process gets it once, and items
    in chunks: many items at once, unless `chunk` says how many.
    """
    if workers == 0:
        yield from map(work, items)
        return
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _start, (work,))  # fork hurts threads
    try:
        chunk = chunk or max(1, min(32, len(items) // (4 * workers)))
        yield from pool.map(_do_work, items, chunksize=chunk)
    except BrokenProcessPool as error:
        raise DataError(
            "a worker process was ended, perhaps because memory ran out; run it again with fewer "
            "workers."
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


_work: list[Callable[[Any], Any]] = []  # of this worker process


def _start(work: Callable[[Any], Any]) -> None:
    cv2.setNumThreads(0)  # processes are the parallelism
    _work.append(work)


def _do_work(item: Any) -> Any:
    return _work[0](item)
