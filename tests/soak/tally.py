"""Count what a soak did, and keep what was wrong."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Tally:
    """What was done how often, figures measured on the way, and all that was not right."""

    counts: Counter[str] = field(default_factory=Counter)
    figures: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def check(self, is_right: bool, problem: str) -> None:
        if not is_right:
            self.problems.append(problem)

    @contextmanager
    def noting(self, task: str) -> Iterator[None]:
        """Keep a failed assertion of a helper as a problem, and go on."""
        try:
            yield
        except AssertionError as error:
            self.problems.append(f"{task}: {str(error)[:500] or 'an assertion failed'}")

    def table(self) -> str:
        """Return counts and figures in two columns, then the problems."""
        rows = [*self.counts.items(), *self.figures.items()]
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {value:>10,.10g}" for name, value in rows]
        wrong = [f"WRONG: {problem}" for problem in self.problems] or ["nothing was wrong"]
        return "\n".join([*lines, *wrong])
