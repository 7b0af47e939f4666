"""Apply one function to many items, in several processes."""

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.synchronize import Event
from typing import Any, NamedTuple, TypeVar

import cv2

from reconet.errors import DataError

T = TypeVar("T")
R = TypeVar("R")


def map_in_processes(
    work: Callable[[T], R], items: Sequence[T], workers: int, *, chunk: int | None = None
) -> Generator[R, None, None]:
    """Yield the results in order. With 0 workers this process does the work.

    `work` must be picklable, as a function of a module is. Each process gets it once, and items
    in chunks: many items at once, unless `chunk` says how many. Close the generator (with
    contextlib.closing) if you leave it early: it then ends its processes.
    """
    if workers == 0:
        yield from map(work, items)
        return
    context = get_context("spawn")  # fork hurts threads
    stop = context.Event()
    pool = ProcessPoolExecutor(workers, context, _start, (work, stop))
    try:
        chunk = chunk or max(1, min(32, len(items) // (4 * workers)))
        with _interrupts_held_back():
            results = pool.map(_do_work, items, chunksize=chunk)
        yield from results
    except BrokenProcessPool as error:
        raise DataError(
            "a worker process was ended, perhaps because memory ran out; run it again with fewer "
            "workers."
        ) from error
    finally:
        stop.set()  # a worker finishes its item, so that no file stays half written
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Start processes that never see Ctrl-C, which a terminal sends to all of them.

    They inherit a blocked signal. This process gets its interrupt at the end of the block: in the
    middle, a process would be left half started.
    """
    # The tracker unblocks signals when it starts. So it has to run before the block.
    resource_tracker.ensure_running()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGINT, handler)
        if pressed:
            signal.raise_signal(signal.SIGINT)


class _Task(NamedTuple):
    work: Callable[[Any], Any]
    stop: Event


_task: list[_Task] = []  # of this worker process


def _start(work: Callable[[Any], Any], stop: Event) -> None:
    cv2.setNumThreads(0)  # processes are the parallelism
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _task.append(_Task(work, stop))


def _end_with_parent() -> None:
    """End this process when its parent is gone. A parent that was killed ends nobody."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do_work(item: Any) -> Any:
    work, stop = _task[0]
    return None if stop.is_set() else work(item)  # nobody waits for the rest
