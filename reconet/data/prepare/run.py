"""Conversions of a dataset: in parallel, file by file, and taken up again where they stopped.

A plan is what there is to do. Its jobs write one file each, in one move, so a file that exists is
complete and its job is skipped; the lists of a split are written last, by `finish`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from typing import Any, NamedTuple

from reconet.data.parallel import mapped
from reconet.errors import DataError
from reconet.system.files import write_text

Progress = Callable[[int, int], object]  # files done, files in all


class Job(NamedTuple):
    target: Path  # the file to write; a job may also find that there is nothing to write
    source: Any  # what from: a path, or instances to draw


@dataclass(frozen=True, kw_only=True)
class Plan:
    jobs: Sequence[Job]
    work: Callable[[Job], None]  # a function of a module, so that it can be sent to a process
    finish: Callable[[], Mapping[str, int]]  # checks, writes the lists, counts each split


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What a preparation did, and the number of images that each split now has."""

    done: int
    skipped: int
    counts: Mapping[str, int]


def run(plan: Plan, workers: int | None = None, progress: Progress | None = None) -> Prepared:
    """Do what is left of a plan. 0 workers: in this process; None: one for each core."""
    report = progress or (lambda done, total: None)
    total = len(plan.jobs)
    todo = [job for job in plan.jobs if not job.target.exists()]
    skipped = total - len(todo)
    report(skipped, total)
    workers = min(cpu_count() or 1, len(todo)) if workers is None else workers
    for number, _ in enumerate(mapped(plan.work, todo, workers), skipped + 1):
        report(number, total)
    return Prepared(done=len(todo), skipped=skipped, counts=plan.finish())


def check_written(jobs: Sequence[Job]) -> None:
    """All files of all jobs must be there."""
    absent = [job.target for job in jobs if not job.target.exists()]
    if absent:
        raise DataError(
            f"{len(absent)} of {len(jobs)} files were not written, such as {absent[0]}."
        )


def write_list(path: Path, names: Sequence[str]) -> int:
    write_text(path, "".join(f"{name}\n" for name in names))
    return len(names)
