"""Work on one request at a time, let a bounded number wait, and turn the rest away.

A request takes its place *before* its body is read, so that the bodies in memory are bounded too.
All counting happens on the thread of the event loop and needs no lock. Only the work is done in
another thread.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


class QueueFullError(Exception):
    """Every place in the queue is taken."""


class ClientGoneError(Exception):
    """The client does not wait for the answer any more."""


class WorkQueue:
    """A queue in front of work that is done in a thread, one piece at a time."""

    def __init__(self, *, waiting: int) -> None:
        self.places = waiting + 1
        self.taken = 0
        self._worker_free = asyncio.Lock()  # first come, first served

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place in the queue, or raise QueueFullError at once."""
        if self.taken >= self.places:
            raise QueueFullError
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, work: Callable[[], T], is_gone: Callable[[], Awaitable[bool]]) -> T:
        """Wait for one's turn, then work in a thread. The caller must hold a place."""
        async with self._worker_free:
            if await is_gone():
                raise ClientGoneError
            return await asyncio.to_thread(work)
