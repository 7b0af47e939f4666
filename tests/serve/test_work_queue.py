"""The queue: one at a time, so many waiting, the rest turned away."""

import asyncio
import threading

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from reconet.serve.work_queue import WorkQueue


async def here() -> bool:
    return False


async def gone() -> bool:
    return True


def test_who_finds_no_place_is_turned_away_at_once_and_places_come_back() -> None:
    async def story() -> None:
        queue, go, done = WorkQueue(waiting=2), threading.Event(), list[int]()

        def work(number: int) -> int:
            assert go.wait(30)
            done.append(number)
            return number

        async def ask(number: int) -> int:
            async with queue.place():
                return await queue.run(lambda: work(number), here)

        asked = [asyncio.create_task(ask(number)) for number in range(3)]
        await asyncio.sleep(0.05)
        for number in (3, 4):
            with pytest.raises(HTTPException, match="queue is full"):
                await ask(number)
        assert done == []
        go.set()
        assert await asyncio.gather(*asked) == [0, 1, 2]
        assert done == [0, 1, 2]  # first come, first served
        assert queue.taken == 0
        assert await ask(5) == 5

    asyncio.run(story())


def test_work_for_somebody_who_has_gone_is_not_done() -> None:
    async def story() -> None:
        queue = WorkQueue(waiting=0)
        with pytest.raises(ClientDisconnect):
            async with queue.place():
                await queue.run(lambda: pytest.fail("done all the same"), gone)
        assert queue.taken == 0

    asyncio.run(story())
