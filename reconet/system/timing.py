"""Times of several ways to do one thing, which take turns, so that the noise of a machine meets all
alike. What counts is the ratio within a round.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

K = TypeVar("K")


def turns(calls: Mapping[K, Callable[[], object]], rounds: int) -> dict[K, list[float]]:
    """Seconds of each call in each round; a first round, which warms up, is not counted."""
    seconds: dict[K, list[float]] = {key: [] for key in calls}
    for number in range(rounds + 1):
        for key, call in calls.items():
            start = time.perf_counter()
            call()
            took = time.perf_counter() - start
            if number > 0:
                seconds[key].append(took)
    return seconds


def over(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """The ratios of two times, round by round."""
    return [a / b for a, b in zip(one, other, strict=True)]
