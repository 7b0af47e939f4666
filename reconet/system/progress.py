"""The one protocol by which long tasks report progress.

Functions that take long have a parameter `progress: Progress = SILENT`. The command line passes
a bar (reconet/cli/output.py). Tests pass a recorder. A library user may pass anything.
"""

import sys
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
