"""Look at every image and label of a dataset, before a training does.

Everything that is wrong is collected, with its file, its label values and their pixel counts,
instead of stopping at the first. Where the labels as a whole show a known mistake, a label_map
that mends it is proposed.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from os import cpu_count
from typing import NamedTuple

import numpy as np

from reconet.data.check_report import Problem, Proposal, Report, SplitReport
from reconet.data.dataset import Dataset, FileDataset, Sample
from reconet.data.images.read import read_index
from reconet.data.labels import IllegalLabelError
from reconet.data.parallel import mapped
from reconet.errors import DataError
from reconet.types import IGNORE, Label

Progress = Callable[[int, int], object]  # images done, images in all
ALL = "(all)"  # where a problem is not of one image


class Finding(NamedTuple):
    """What one image has: pixels of each label, of each number in its file, what is wrong."""

    labels: dict[int, int]
    numbers: dict[int, int]
    problem: Problem | None


def check(
    datasets: Sequence[Dataset],
    *,
    subset: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check splits of one dataset; with `subset` they may have fewer images than officially.

    0 workers: in this process; None: one for each core.
    """
    info = datasets[0].info
    tasks = [(place, i) for place, dataset in enumerate(datasets) for i in range(len(dataset))]
    found: list[list[Finding]] = [[] for _ in datasets]
    workers = min(cpu_count() or 1, 1 + len(tasks) // 64) if workers is None else workers
    findings = mapped(partial(_inspect_task, datasets), tasks, workers)
    for number, (task, finding) in enumerate(zip(tasks, findings, strict=True), 1):
        found[task[0]].append(finding)
        if progress is not None:
            progress(number, len(tasks))
    everything = [finding for findings in found for finding in findings]
    problems = [*_count_problems(datasets, subset), *_shared_problems(datasets)]
    problems += [finding.problem for finding in everything if finding.problem is not None]
    mask_problem, proposals = _propose(everything, len(info.classes))
    return Report(
        dataset=info.name,
        classes=info.classes,
        splits=tuple(map(_split_report, datasets, found)),
        problems=(*problems, *mask_problem),
        proposals=proposals,
    )


def _inspect_task(datasets: Sequence[Dataset], task: tuple[int, int]) -> Finding:
    place, index = task
    return inspect(datasets[place], index)


def inspect(dataset: Dataset, index: int) -> Finding:
    """Look at one image. What concerns all images alike, as a missing extra, is raised."""
    problem = partial(Problem, split=dataset.split, name=dataset.name(index))
    try:
        sample = dataset[index]
    except IllegalLabelError as error:
        numbers = _numbers(dataset, index) or dict(error.counts)
        return Finding({}, numbers, problem(text=str(error), values=dict(error.counts)))
    except DataError as error:
        return Finding({}, {}, problem(text=str(error)))
    if isinstance(dataset, FileDataset) and dataset.pairs[index].label is None:
        return Finding({}, {}, None)
    labels = _histogram(sample.label_hw)
    wrong = _wrong(sample, labels, len(dataset.info.classes))
    if wrong is not None:
        text, values = wrong
        return Finding({}, labels, problem(text=text, values=values))
    return Finding(labels, _numbers(dataset, index) if set(labels) <= {0, IGNORE} else {}, None)


def _wrong(
    sample: Sample, labels: Mapping[int, int], num_classes: int
) -> tuple[str, dict[int, int]] | None:
    """What a dataset that checks nothing itself may have let through."""
    name, image_hwc, label_hw = sample
    if label_hw.shape != image_hwc.shape[:2]:
        sizes = [f"{w} x {h}" for h, w in (label_hw.shape, image_hwc.shape[:2])]
        return f"the label of {name} is {sizes[0]} but its image {sizes[1]} (width x height).", {}
    values = {v: n for v, n in labels.items() if v >= num_classes and v != IGNORE}
    if not values:
        return None
    shown = ", ".join(f"{value} ({pixels} pixels)" for value, pixels in values.items())
    return f"{name} holds labels outside the {num_classes} classes: {shown}.", values


def _histogram(label_hw: Label) -> dict[int, int]:
    pixels_n = np.bincount(label_hw.ravel(), minlength=256)
    return {int(value): int(pixels_n[value]) for value in np.flatnonzero(pixels_n)}


def _numbers(dataset: Dataset, index: int) -> dict[int, int]:
    """The numbers in the label file itself, where it is a file of numbers."""
    path = dataset.pairs[index].label if isinstance(dataset, FileDataset) else None
    if path is None:
        return {}
    try:
        return _histogram(read_index(path))
    except DataError:
        return {}


def _split_report(dataset: Dataset, findings: Sequence[Finding]) -> SplitReport:
    pixels: Counter[int] = Counter()
    image_count: Counter[int] = Counter()
    for finding in findings:
        pixels.update(finding.labels)
        image_count.update(finding.labels.keys())
    classes = range(len(dataset.info.classes))
    return SplitReport(
        split=dataset.split,
        images=len(dataset),
        official=dataset.info.splits.get(dataset.split),
        labelled=sum(bool(finding.labels.keys() - {IGNORE}) for finding in findings),
        broken=sum(finding.problem is not None for finding in findings),
        void_pixels=pixels[IGNORE],
        pixels_k=tuple(pixels[index] for index in classes),
        images_k=tuple(image_count[index] for index in classes),
    )


def _count_problems(datasets: Sequence[Dataset], subset: bool) -> Iterator[Problem]:
    for dataset in datasets:
        official, count = dataset.info.splits.get(dataset.split), len(dataset)
        if official is not None and (count > official or (count < official and not subset)):
            hint = "" if count > official else " For a part of the dataset, say --subset."
            text = f"{count} images, where there are officially {official}.{hint}"
            yield Problem(split=dataset.split, name=ALL, text=text)
        names = Counter(dataset.name(index) for index in range(count))
        for name, times in names.items():
            if times > 1:
                text = f"{name} is in this split {times} times."
                yield Problem(split=dataset.split, name=name, text=text)


def _shared_problems(datasets: Sequence[Dataset]) -> Iterator[Problem]:
    by_split = {dataset.split: dataset for dataset in datasets}
    for first, second in datasets[0].info.disjoint:
        if first in by_split and second in by_split:
            shared = _shared(by_split[first], by_split[second])
            for name in shared:
                text = f"{name} is in {first} and in {second}, which must not share an image."
                yield Problem(split=f"{first}, {second}", name=name, text=text)


def _shared(first: Dataset, second: Dataset) -> list[str]:
    """The names in both; two different files may have one name, as 1.jpg in two folders."""
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
    findings: Sequence[Finding], num_classes: int
) -> tuple[list[Problem], tuple[Proposal, ...]]:
    """Known mistakes that only the labels of all images together show."""
    labels: Counter[int] = Counter()
    numbers: Counter[int] = Counter()
    illegal: set[int] = set()
    for finding in findings:
        labels.update(finding.labels)
        numbers.update(finding.numbers or finding.labels)
        illegal.update(finding.problem.values if finding.problem is not None else ())
    if num_classes == 2 and len(numbers) == 2 and set(labels) <= {0, IGNORE}:
        low, high = sorted(numbers)
        proposal = Proposal(
            reason=f"the masks hold {low} and {high}, for two classes", label_map={low: 0, high: 1}
        )
        if illegal:
            return [], (proposal,)
        text = (
            f"all labels are 0 or void: {high} in the masks means 'not labelled', class 1 is none."
        )
        return [Problem(split=ALL, name=ALL, text=text, values=dict(numbers))], (proposal,)
    if illegal == {num_classes} and set(numbers) <= {*range(num_classes + 1), IGNORE}:
        label_map = {0: IGNORE} | {n: n - 1 for n in range(1, num_classes + 1)} | {IGNORE: IGNORE}
        start = "0, which is one too many" if 0 in numbers else "1"
        reason = f"the labels of {num_classes} classes run to {num_classes} from {start}"
        return [], (Proposal(reason=f"{reason}; if 0 is void", label_map=label_map),)
    return [], ()
