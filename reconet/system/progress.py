"""The one protocol by which long tasks report progress.

Functions that take long have a parameter `progress: Progress = SILENT`. The command line passes
a bar (reconet/cli/output.py). Tests pass a recorder. A library user may pass anything.
"""

import sys
import time
from typing import Protocol


class Progress(Protocol):
    """An object that a long task reports to."""

    def start(self, total: int, task: str = "") -> None:
        """Begin to count `total` things. A second start begins a new count."""

    def advance(self, count: int = 1) -> None:
        """Count things that are done."""

    def status(self, text: str) -> None:
        """Say what is being done now. The next status replaces it."""

    def note(self, text: str) -> None:
        """Say something that the user should read, such as a file that was skipped."""


class Silent:
    """A progress display that shows nothing."""

    def start(self, total: int, task: str = "") -> None:
        """Ignore it."""

    def advance(self, count: int = 1) -> None:
        """Ignore it."""

    def status(self, text: str) -> None:
        """Ignore it."""

    def note(self, text: str) -> None:
        """Ignore it."""


SILENT: Progress = Silent()


class Notes(Silent):
    """A display that prints notes on stderr and shows nothing else."""

    def note(self, text: str) -> None:
        """Print a line."""
        print(text, file=sys.stderr, flush=True)


NOTES: Progress = Notes()


class Lines(Notes):
    """A display that prints notes, and where a task is now and then, on stderr."""

    def __init__(self, seconds: float = 10.0) -> None:
        """Print at most one line in so many seconds, and one at the end of a task."""
        self._seconds, self._task, self._status = seconds, "", ""
        self._done = self._total = 0
        self._last = time.monotonic()

    def start(self, total: int, task: str = "") -> None:
        """Begin to count."""
        self._done, self._total, self._task = 0, total, task or self._task
        self._status, self._last = "", time.monotonic()

    def advance(self, count: int = 1) -> None:
        """Count, and print a line if the last one is some time ago."""
        self._done += count
        if time.monotonic() - self._last >= self._seconds or self._done == self._total:
            status = f", {self._status}" if self._status else ""
            self.note(f"{self._task or 'done'}: {self._done} of {self._total}{status}")
            self._last = time.monotonic()

    def status(self, text: str) -> None:
        """Keep it for the next line."""
        self._status = text
