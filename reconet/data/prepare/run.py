"""Convert a dataset file by file, in parallel. A second call resumes where the first stopped.

Each job writes one file in one move, so a file that exists is complete and its job is skipped.
The lists of the splits are written last, by `finish`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from typing import Any, NamedTuple

from reconet.data.parallel import map_in_processes
from reconet.errors import DataError
from reconet.system.files import write_text
from reconet.system.progress import SILENT, Progress


class Job(NamedTuple):
    """One file to write."""

    target: Path  # a job may also find that there is nothing to write
    source: Any  # a path, or instances to draw


@dataclass(frozen=True, kw_only=True)
class PreparePlan:
    """All that there is to do to prepare a dataset."""

    jobs: Sequence[Job]
    work: Callable[[Job], None]  # a function of a module, so that it can be sent to a process
    finish: Callable[[], Mapping[str, int]]  # checks, writes the lists, counts each split


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """How many files a preparation wrote, and how many images each split has now."""

    done: int
    skipped: int
    counts: Mapping[str, int]


def run_plan(
    plan: PreparePlan, workers: int | None = None, progress: Progress = SILENT
) -> Prepared:
    """Do the jobs whose files are not there yet.

    With 0 workers this process does them. None means one worker for each core.
    """
    todo = [job for job in plan.jobs if not job.target.exists()]
    skipped = len(plan.jobs) - len(todo)
    progress.start(len(plan.jobs), "prepare")
    progress.advance(skipped)
    workers = min(cpu_count() or 1, len(todo)) if workers is None else workers
    with closing(map_in_processes(plan.work, todo, workers)) as results:
        for _ in results:
            progress.advance()
    return Prepared(done=len(todo), skipped=skipped, counts=plan.finish())


def check_written(jobs: Sequence[Job]) -> None:
    """Raise an error if the file of some job is not there."""
    absent = [job.target for job in jobs if not job.target.exists()]
    if absent:
        raise DataError(
            f"{len(absent)} of {len(jobs)} files were not written, such as {absent[0]}."
        )


def write_list(path: Path, names: Sequence[str]) -> int:
    """Write the list of a split, and return its length."""
    write_text(path, "".join(f"{name}\n" for name in names))
    return len(names)
