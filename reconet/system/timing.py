"""Time several calls side by side.

The calls run in turns, so that a busy machine slows all of them alike. Compare the ratios within
a round, not the times of different runs.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch

K = TypeVar("K")


def time_in_turns(calls: Mapping[K, Callable[[], object]], rounds: int) -> dict[K, list[float]]:
    """Return the seconds of each call in each round.

    One extra round comes first as a warm-up and is not counted. The time of a call ends when its
    GPU is done.
    """
    seconds: dict[K, list[float]] = {key: [] for key in calls}
    for number in range(rounds + 1):
        for key, call in calls.items():
            start = time.perf_counter()
            call()
            _wait_for_gpu()
            took = time.perf_counter() - start
            if number > 0:
                seconds[key].append(took)
    return seconds


def _wait_for_gpu() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    if torch.backends.mps.is_available():
        torch.mps.synchronize()


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Divide two lists of times, round by round."""
    return [a / b for a, b in zip(numerators, denominators, strict=True)]
