"""Convert a dataset file by file, in parallel. A second call resumes where the first stopped.

Each job writes one file in one move, so a file that exists is complete and its job is skipped.
The lists of the splits are written last, by `finish`. The conversions are in data/sets/.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reconet.data.parallel import map_in_processes
from reconet.errors import AbsentError, DataError, MissingExtraError
from reconet.system.files import write_text
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import read_file
from reconet.types import Label


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


class Drawing(NamedTuple):
    """The instances of one image, in the order of the file."""

    height: int
    width: int
    instances: list[tuple[int, Any]]  # label, segmentation


def draw_instances(drawing: Drawing, name: str, *, first_wins: bool) -> Label:
    """Draw the labels of one image. Where instances overlap, the first or the last one wins."""
    label_hw = np.zeros((drawing.height, drawing.width), np.uint8)
    order = reversed(drawing.instances) if first_wins else drawing.instances
    try:
        for label, segmentation in order:
            label_hw[decode(segmentation, drawing.height, drawing.width)] = label
    except Exception as error:  # pycocotools raises nearly anything about bad segmentations
        raise DataError(f"cannot draw {name}: {error}.") from error
    return label_hw


def decode(segmentation: Any, height: int, width: int) -> NDArray[np.bool_]:
    """Return the pixels of a segmentation: polygons, or run lengths, plain or compressed."""
    if isinstance(segmentation, list):
        from pycocotools import mask  # type: ignore[import-untyped]

        parts = mask.frPyObjects(segmentation, height, width)
        return np.asarray(np.any([decode(part, height, width) for part in parts], axis=0))
    counts = segmentation["counts"]
    runs_n = np.array(counts if isinstance(counts, list) else run_lengths(counts))
    if list(segmentation["size"]) != [height, width] or runs_n.sum() != height * width:
        raise ValueError(f"its run lengths do not fill {height} x {width} pixels")
    inside_n = np.arange(len(runs_n)) % 2 == 1  # runs of outside and inside, in turn
    return np.repeat(inside_n, runs_n).reshape(width, height).T  # column by column


def run_lengths(text: str | bytes) -> list[int]:
    """Unpack the run lengths that COCO compresses into printable characters.

    A character holds six bits: five of a number, lowest first, and one that says "more follows".
    From the fourth number on they are differences to the number before the last.
    """
    lengths: list[int] = []
    number = shift = 0
    for byte in text.encode() if isinstance(text, str) else text:
        number |= (byte - 48 & 31) << shift
        shift += 5
        if byte - 48 & 32:
            continue
        if byte - 48 & 16:  # the highest bit is the sign
            number -= 1 << shift
        lengths.append(number + (lengths[-2] if len(lengths) > 2 else 0))
        number = shift = 0
    return lengths


def need_pycocotools(path: Path) -> None:
    """Raise an error without pycocotools, before work starts in other processes."""
    try:
        import pycocotools.mask  # type: ignore[import-untyped]  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("data", f"drawing the polygons of {path}") from error


def read_json(path: Path, *lists: str) -> list[list[dict[str, Any]]]:
    """Read these lists of a json file. All of them must be there."""
    try:
        content = json.loads(read_file(path))
        return [list(content[name]) for name in lists]
    except FileNotFoundError as error:
        raise AbsentError(f"expected the file {path}, which does not exist.") from error
    except (KeyError, TypeError) as error:
        raise DataError(f"{path} has no lists {' and '.join(lists)}.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot read {path}: {error}.") from error
