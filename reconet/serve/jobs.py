"""Work in a bounded line: one at a time, so many waiting, and the rest are turned away.

A place is taken *before* a request's body is read, so that the bodies in memory are bounded too.
All counting happens on the event loop's thread and needs no lock; only the work is done elsewhere.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


class BusyError(Exception):
    """Every place in the line is taken."""


class GoneError(Exception):
    """Whoever asked does not wait for the answer any more."""


class Jobs:
    def __init__(self, *, waiting: int) -> None:
        self.places = waiting + 1
        self.taken = 0
        self._turn = asyncio.Lock()  # first come, first served
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="segment")

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        if self.taken >= self.places:
            raise BusyError
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, work: Callable[[], T], gone: Callable[[], Awaitable[bool]]) -> T:
        """Wait for a turn, then work in a thread; to be called by who has a place."""
        async with self._turn:
            if await gone():
                raise GoneError
            loop = asyncio.get_running_loop()
            # If the server stops meanwhile, the turn ends only when the thread is free again.
            return await asyncio.shield(loop.run_in_executor(self._threads, work))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
