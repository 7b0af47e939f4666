"""Check every image and mask of a dataset, before a training reads them.

All problems are collected, with their files, label values and pixel counts. Where the labels as a
whole show a known mistake, the report proposes a label_map that mends it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from os import cpu_count
from typing import NamedTuple

import numpy as np

from reconet.data.check_report import CheckReport, DataProblem, Proposal, SplitReport
from reconet.data.dataset import Dataset, FileDataset, Sample
from reconet.data.images.read import read_mask
from reconet.data.labels import IllegalLabelError
from reconet.data.parallel import map_in_processes
from reconet.errors import DataError
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.types import IGNORE, Label

ALL = "(all)"  # the name in a problem that does not concern one image


class ImageCheck(NamedTuple):
    """What was found in one image and its mask."""

    labels: dict[int, int]  # label -> pixels
    numbers: dict[int, int]  # number in the mask file -> pixels
    problem: DataProblem | None


def check_splits(
    datasets: Sequence[Dataset],
    *,
    subset: bool = False,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> CheckReport:
    """Check splits of one dataset. With `subset` they may have fewer images than officially.

    With 0 workers this process does the work. None means one worker for each core.
    """
    info = datasets[0].info
    tasks = [(place, i) for place, dataset in enumerate(datasets) for i in range(len(dataset))]
    checks: list[list[ImageCheck]] = [[] for _ in datasets]
    workers = min(cpu_count() or 1, 1 + len(tasks) // 64) if workers is None else workers
    progress.start(len(tasks), "check")
    results = map_in_processes(partial(_check_task, datasets), tasks, workers)
    for (place, _), result in zip(tasks, results, strict=True):
        checks[place].append(result)
        progress.advance()
    everything = [result for of_split in checks for result in of_split]
    problems = [*_count_problems(datasets, subset), *_shared_problems(datasets)]
    problems += [result.problem for result in everything if result.problem is not None]
    mask_problem, proposals = _propose(everything, len(info.classes))
    return CheckReport(
        dataset=info.name,
        classes=info.classes,
        splits=tuple(map(_split_report, datasets, checks)),
        problems=(*problems, *mask_problem),
        proposals=proposals,
    )


def _check_task(datasets: Sequence[Dataset], task: tuple[int, int]) -> ImageCheck:
    place, index = task
    return check_image(datasets[place], index)


def check_image(dataset: Dataset, index: int) -> ImageCheck:
    """Check one image. An error that concerns all images, such as a missing extra, is raised."""
    problem = partial(DataProblem, split=dataset.split, name=dataset.name(index))
    try:
        sample = dataset[index]
    except IllegalLabelError as error:
        numbers = _numbers(dataset, index) or dict(error.counts)
        return ImageCheck({}, numbers, problem(text=str(error), values=dict(error.counts)))
    except DataError as error:
        return ImageCheck({}, {}, problem(text=str(error)))
    if isinstance(dataset, FileDataset) and dataset.pairs[index].mask is None:
        return ImageCheck({}, {}, None)
    labels = _histogram(sample.label_hw)
    wrong = _wrong(sample, labels, len(dataset.info.classes))
    if wrong is not None:
        text, values = wrong
        return ImageCheck({}, labels, problem(text=text, values=values))
    return ImageCheck(labels, _numbers(dataset, index) if set(labels) <= {0, IGNORE} else {}, None)


def _wrong(
    sample: Sample, labels: Mapping[int, int], num_classes: int
) -> tuple[str, dict[int, int]] | None:
    """Return what is wrong with a sample of a dataset that checks nothing itself."""
    name, image_hwc, label_hw = sample
    if label_hw.shape != image_hwc.shape[:2]:
        sizes = [f"{w} x {h}" for h, w in (label_hw.shape, image_hwc.shape[:2])]
        return f"the label of {name} is {sizes[0]} but its image {sizes[1]} (width x height).", {}
    values = {v: n for v, n in labels.items() if v >= num_classes and v != IGNORE}
    if not values:
        return None
    counts = ", ".join(f"{value} ({counted(pixels, 'pixel')})" for value, pixels in values.items())
    return f"{name} holds labels outside the {num_classes} classes: {counts}.", values


def _histogram(label_hw: Label) -> dict[int, int]:
    pixels_n = np.bincount(label_hw.ravel(), minlength=256)
    return {int(value): int(pixels_n[value]) for value in np.flatnonzero(pixels_n)}


def _numbers(dataset: Dataset, index: int) -> dict[int, int]:
    """Count the numbers in the mask file itself, if it is one."""
    path = dataset.pairs[index].mask if isinstance(dataset, FileDataset) else None
    if path is None:
        return {}
    try:
        return _histogram(read_mask(path))
    except DataError:
        return {}


def _split_report(dataset: Dataset, checks: Sequence[ImageCheck]) -> SplitReport:
    pixels: Counter[int] = Counter()
    image_count: Counter[int] = Counter()
    for check in checks:
        pixels.update(check.labels)
        image_count.update(check.labels.keys())
    classes = range(len(dataset.info.classes))
    return SplitReport(
        split=dataset.split,
        images=len(dataset),
        official=dataset.info.splits.get(dataset.split),
        labelled=sum(bool(check.labels.keys() - {IGNORE}) for check in checks),
        broken=sum(check.problem is not None for check in checks),
        void_pixels=pixels[IGNORE],
        pixels_k=tuple(pixels[index] for index in classes),
        images_k=tuple(image_count[index] for index in classes),
    )


def _count_problems(datasets: Sequence[Dataset], subset: bool) -> Iterator[DataProblem]:
    for dataset in datasets:
        official, count = dataset.info.splits.get(dataset.split), len(dataset)
        if official is not None and (count > official or (count < official and not subset)):
            hint = "" if count > official else " For a part of the dataset, pass --subset."
            text = f"{counted(count, 'image')}, where there are officially {official}.{hint}"
            yield DataProblem(split=dataset.split, name=ALL, text=text)
        names = Counter(dataset.name(index) for index in range(count))
        for name, times in names.items():
            if times > 1:
                text = f"{name} is in this split {times} times."
                yield DataProblem(split=dataset.split, name=name, text=text)


def _shared_problems(datasets: Sequence[Dataset]) -> Iterator[DataProblem]:
    by_split = {dataset.split: dataset for dataset in datasets}
    for first, second in datasets[0].info.disjoint:
        if first in by_split and second in by_split:
            shared = _shared(by_split[first], by_split[second])
            for name in shared:
                text = f"{name} is in {first} and in {second}, which must not share an image."
                yield DataProblem(split=f"{first}, {second}", name=name, text=text)


def _shared(first: Dataset, second: Dataset) -> list[str]:
    """Return the names of images in both.

    Two different files may have one name, such as 1.jpg in two folders.
    """
    places = {first.name(index): index for index in range(len(first))}
    return [
        name
        for index, name in enumerate(second.name(i) for i in range(len(second)))
        if name in places and _same_image(first, places[name], second, index)
    ]


def _same_image(first: Dataset, i: int, second: Dataset, j: int) -> bool:
    if not (isinstance(first, FileDataset) and isinstance(second, FileDataset)):
        return True
    one, other = first.pairs[i].image, second.pairs[j].image
    try:
        return one == other or one.read_bytes() == other.read_bytes()
    except OSError:  # a missing file is a problem of its own
        return False


def _propose(
    checks: Sequence[ImageCheck], num_classes: int
) -> tuple[list[DataProblem], tuple[Proposal, ...]]:
    """Find known mistakes that only the labels of all images together show."""
    labels: Counter[int] = Counter()
    numbers: Counter[int] = Counter()
    illegal: set[int] = set()
    for check in checks:
        labels.update(check.labels)
        numbers.update(check.numbers or check.labels)
        illegal.update(check.problem.values if check.problem is not None else ())
    if num_classes == 2 and len(numbers) == 2 and set(labels) <= {0, IGNORE}:
        low, high = sorted(numbers)
        proposal = Proposal(
            reason=f"the masks hold {low} and {high}, for two classes", label_map={low: 0, high: 1}
        )
        if illegal:
            return [], (proposal,)
        text = (
            f"all labels are 0 or void: {high} in the masks means void, and class 1 has no pixel."
        )
        return [DataProblem(split=ALL, name=ALL, text=text, values=dict(numbers))], (proposal,)
    if illegal == {num_classes} and set(numbers) <= {*range(num_classes + 1), IGNORE}:
        label_map = {0: IGNORE} | {n: n - 1 for n in range(1, num_classes + 1)} | {IGNORE: IGNORE}
        start = "0, which is one too many" if 0 in numbers else "1"
        reason = f"the labels of {num_classes} classes run to {num_classes} from {start}"
        return [], (Proposal(reason=f"{reason}; if 0 is void", label_map=label_map),)
    return [], ()
