"""What is shown while a verb works and when it is done: results, remarks, and one kind of bar.

Everything is printed as it is: names of classes and folders may look like rich's markup.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

LINE_SECONDS = 10.0  # between lines about what is done, where there is no terminal
SPEED_SECONDS = 600.0  # that the time left is guessed by: images and steps may take long


def console(*, err: bool = False) -> "Console":
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    # Into a pipe or a file a table is as wide as it needs to be.
    width = None if stream.isatty() else 200
    return Console(stderr=err, width=width, markup=False, highlight=False, emoji=False)


def print_result(values: dict[str, Any], shown: Sequence["RenderableType"], as_json: bool) -> None:
    """Print figures, for a person or for a program."""
    if as_json:
        print_json(values)
        return
    from rich.text import Text

    screen = console()
    for one in shown:
        screen.print(one, soft_wrap=isinstance(one, str | Text))  # paths are not broken


def print_json(values: object) -> None:
    print(json.dumps(values, indent=2))


def note(text: str) -> None:
    """What a user should know of a result that is there all the same."""
    print(f"reconet: note: {text}", file=sys.stderr)


@contextmanager
def busy(text: str) -> Iterator[Callable[[str], None]]:
    """Say on a terminal what takes so long; what it gives says something else."""
    from rich.text import Text

    with console(err=True).status(Text(text)) as status:
        yield lambda line: status.update(Text(line))


class Bar:
    """How far something is: a bar with the time left, or a line now and then."""

    def __init__(self, text: str, bars: "Progress", lines: bool) -> None:
        self._text, self._bars, self._lines = text, bars, lines and bars.disable
        self._begin = self._said = time.monotonic()
        self._task = bars.add_task(text, total=None, visible=False)

    def at(self, done: int, total: int) -> None:
        self._bars.update(self._task, completed=done, total=total, visible=True)
        now = time.monotonic()
        if self._lines and now - self._said > LINE_SECONDS and done:
            left = (now - self._begin) * (total - done) / done
            self.line(f"{self._text}: {done} of {total}, about {left:.0f} s left")
            self._said = now

    def line(self, text: str) -> None:
        """Above the bar, to stay."""
        self._bars.console.print(text, soft_wrap=True)

    def count(self, total: int, text: str | None = None) -> Callable[[], None]:
        """What to call after each of so many things. A second count is a bar of its own."""
        bar, done = Bar(text or self._text, self._bars, self._lines), 0
        bar.at(0, total)

        def tick() -> None:
            nonlocal done
            done += 1
            bar.at(done, total)

        return tick


@contextmanager
def bar(text: str, *, lines: bool = True) -> Iterator[Bar]:
    """A bar on stderr. `lines`: where there is no terminal it says now and then how far it is."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as TimeLeftColumn

    columns = [
        TextColumn("{task.description} {task.completed} of {task.total}", markup=False),
        BarColumn(bar_width=None),
        TimeElapsedColumn(),
        TimeLeftColumn(elapsed_when_finished=True),
    ]
    screen, hidden = console(err=True), not sys.stderr.isatty()
    with Progress(
        *columns, console=screen, speed_estimate_period=SPEED_SECONDS, disable=hidden
    ) as bars:
        yield Bar(text, bars, lines)
