"""Stop a training on a signal, between two steps."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread


class StopSwitch:
    """Asks the loop to stop after the current step, once a signal has set it."""

    signal: int | None = None

    def __call__(self) -> bool:
        return self.signal is not None


@contextmanager
def stop_on_signals(stop: StopSwitch) -> Iterator[None]:
    """Set `stop` on Ctrl-C and SIGTERM. A second Ctrl-C interrupts at once.

    In a thread, as of a notebook, Python does not allow it, and signals do what they did before.
    """
    if current_thread() is not main_thread():
        yield
        return

    def handle(number: int, frame: object) -> None:
        if stop.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.signal = number

    before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
