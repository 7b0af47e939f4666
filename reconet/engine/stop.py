"""Stopping a training from outside, between two steps."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class StopSwitch:
    """Something outside the loop (a signal) that may ask it to stop after the current step."""

    signal: int | None = None

    def __call__(self) -> bool:
        return self.signal is not None


@contextmanager
def signals(stop: StopSwitch) -> Iterator[None]:
    """Ctrl-C and SIGTERM ask for a stop after the current step; a second Ctrl-C stops at once."""

    def ask(number: int, frame: object) -> None:
        if stop.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.signal = number

    before = {n: signal.signal(n, ask) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
