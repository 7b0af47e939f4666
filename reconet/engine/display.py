"""How a training looks in a terminal: a bar with the time left, or plain lines in a file."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from reconet.engine.train import Step

SECONDS_BETWEEN_LINES = 10.0  # where there is no terminal to draw a bar in


class Display:
    def __init__(self, steps: int, *, enabled: bool) -> None:
        self.enabled = enabled
        self._steps = steps
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=self._console,
            disable=not (enabled and sys.stderr.isatty()),
        )
        self._task = self._progress.add_task("train", total=steps, text="")
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.__exit__(kind, value, trace)

    def step(self, step: Step) -> None:
        self._progress.update(self._task, completed=step.done)
        for skipped in step.skipped if self.enabled else ():
            self.line(f"skipped {skipped}")

    def figures(self, step: int, figures: dict[str, Any]) -> None:
        text = (
            f"loss {figures['loss']:.3f}  lr {figures['lr']:.2g}  "
            f"{figures['images_per_second']:.1f} img/s  {figures['memory_mb'] / 1e3:.1f} GB"
        )
        self._progress.update(self._task, text=text)
        now = time.monotonic()
        if self._progress.disable and now - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = now
            self.line(f"step {step} of {self._steps}: {text}")

    def line(self, text: str) -> None:
        if self.enabled:
            self._console.print(text, markup=False)

    @contextmanager
    def validation(self, images: int) -> Iterator[Callable[[], None]]:
        """A second bar; what it gives is to be called after every image."""
        task = self._progress.add_task("validate", total=images, text="")
        try:
            yield lambda: self._progress.advance(task)
        finally:
            self._progress.remove_task(task)
