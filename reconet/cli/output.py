"""Print results, tables and notes, and show progress.

Everything is printed as it is: names of classes and folders may look like rich's markup.
"""

import json
import os
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from reconet.system.readable import printable, readable_seconds

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID
    from rich.table import Table

LINE_SECONDS = 10.0  # between lines about progress, where there is no terminal
SPEED_SECONDS = 600.0  # over which the speed is averaged: an image or a step may take long


MIB = 2**20

_began = time.perf_counter()  # the command: every verb imports this file first


def start_clock() -> None:
    """Begin to time a command that another program runs. A user's began with the process."""
    global _began
    _began = time.perf_counter()


def all_seconds(parts: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of a command's parts, with those before them and all until now."""
    total = time.perf_counter() - _began
    every = {"start": max(0.0, total - sum(parts.values())), **parts, "total": total}
    return {name: round(seconds, 2) for name, seconds in every.items()}


def console(*, err: bool = False) -> "Console":
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    # Into a pipe or a file a table is as wide as it needs to be.
    width = None if stream.isatty() else 200
    return Console(stderr=err, width=width, markup=False, highlight=False, emoji=False)


def make_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    text: Collection[str] = (),
    caption: str = "",
) -> "Table":
    """Return a table: text in its first column and in those named, numbers in the others.

    The first column has names to copy. They are not broken.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=printable(title),
        caption=printable(caption),
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    for column in columns:
        if column in text:
            table.add_column(printable(column), overflow="fold")
        else:
            justify: Literal["left", "right"] = "right" if table.columns else "left"
            table.add_column(printable(column), justify=justify, no_wrap=not table.columns)
    for row in rows:
        table.add_row(*map(printable, row))
    return table


def bold(text: str) -> "RenderableType":
    from rich.text import Text

    return Text(printable(text), style="bold")


def print_result(
    values: Mapping[str, object], parts: Sequence["RenderableType"], as_json: bool
) -> None:
    """Print `values` as JSON, or `parts` for a person."""
    if as_json:
        print_json(values)
        return
    from rich.table import Table

    screen = console()
    for part in parts:
        shown = printable(part) if isinstance(part, str) else part
        screen.print(shown, soft_wrap=not isinstance(part, Table))  # paths are not broken


def print_json(values: object) -> None:
    print(json.dumps(values, indent=2))


def print_line(text: str, *, err: bool = False) -> None:
    """Print text as it is, but for what a terminal would obey."""
    print(printable(text), file=sys.stderr if err else sys.stdout)


def print_note(text: str) -> None:
    """Print a remark on a result to stderr."""
    print_line(f"reconet: note: {text}", err=True)


class ProgressBar:
    """A bar with the time left on a terminal, else a line on stderr now and then.

    It is a reconet.system.progress.Progress.
    """

    def __init__(self, task: str, bars: "RichProgress", lines: bool) -> None:
        self._name, self._bars, self._lines = task, bars, lines and bars.disable
        self._done = self._total = 0
        self._status = ""
        self._last_line = time.monotonic()
        self._first: tuple[float, int] | None = None  # when the first things were done, how many
        self._bar: TaskID | None = None  # the bar on the screen that changes

    def start(self, total: int, task: str = "") -> None:
        """Begin a new bar. The one before stays on the screen as it is."""
        if not self._total:
            self.clear()
        self._name = task or self._name
        self._done, self._total, self._status = 0, total, ""
        self._last_line, self._first = time.monotonic(), None
        self._bar = self._bars.add_task(self._count(), total=total, status="")

    def advance(self, count: int = 1) -> None:
        """Move the bar, or print a line if the last one is some time ago."""
        self._done += count
        self._update()
        now = time.monotonic()
        if self._first is None:
            self._first = now, self._done
        if self._lines and now - self._last_line > LINE_SECONDS and self._done:
            status = f", {self._status}" if self._status else ""
            self.note(f"{self._name}: {self._done} of {self._total}{self._left(now)}{status}")
            self._last_line = now

    def _left(self, now: float) -> str:
        """Estimate the time left from the pace after the first thing, which is often slow.

        It waits for processes that start, for files that are read for the first time, and so on.
        """
        began, before = self._first or (now, 0)
        if self._done == before:
            return ""
        seconds = (now - began) * (self._total - self._done) / (self._done - before)
        return f", about {readable_seconds(seconds)} left"

    def status(self, text: str) -> None:
        """Show `text` beside the bar, or at the end of the next line."""
        self._status = printable(text)
        self._update()

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self._bars.console.print(printable(text), soft_wrap=True)

    def clear(self) -> None:
        """Remove a bar that counts nothing."""
        if self._bar is not None and not self._total:
            self._bars.remove_task(self._bar)
            self._bar = None

    def _count(self) -> str:
        return f"{self._name} {self._done} of {self._total}" if self._total else self._name

    def _update(self) -> None:
        if self._bar is None:
            self._bar = self._bars.add_task(self._name, total=None, status=self._status)
        self._bars.update(
            self._bar, completed=self._done, description=self._count(), status=self._status
        )


@contextmanager
def show_progress(task: str, status: str = "", *, lines: bool = True) -> Iterator[ProgressBar]:
    """Show a bar on stderr while the block runs.

    Where there is no terminal, `lines` allows a line now and then.
    """
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # of the line: a status may be long
    columns = [
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[status]}", markup=False, table_column=rest),
    ]
    is_first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun started
    screen, hidden = console(err=True), not (sys.stderr.isatty() and is_first)
    with Progress(
        *columns,
        console=screen,
        speed_estimate_period=SPEED_SECONDS,
        disable=hidden,
        expand=True,
    ) as bars:
        bar = ProgressBar(task, bars, lines)
        if status:
            bar.status(status)
        try:
            yield bar
        finally:
            bar.clear()
