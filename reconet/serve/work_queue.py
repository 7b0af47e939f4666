"""Work on one request at a time, let a bounded number wait, and turn the rest away.

A request takes its place *before* its body is read, so that the bodies in memory are bounded too.
All counting happens on the thread of the event loop and needs no lock. Only the work is done in
another thread.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

T = TypeVar("T")


class WorkQueue:
    """A queue in front of work that is done in a thread, one piece at a time."""

    def __init__(self, *, waiting: int) -> None:
        self.places = waiting + 1
        self.taken = 0
        self._worker_free = asyncio.Lock()  # first come, first served

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place in the queue, or answer 503 at once."""
        if self.taken >= self.places:
            raise HTTPException(
                503, "the queue is full; try again in a moment.", {"Retry-After": "2"}
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1

    async def run(self, work: Callable[[], T], is_gone: Callable[[], Awaitable[bool]]) -> T:
        """Wait for one's turn, then work in a thread. The caller must hold a place."""
        async with self._worker_free:
            if await is_gone():
                raise ClientDisconnect
            return await asyncio.to_thread(work)
