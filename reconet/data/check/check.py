"""Gather the facts of all files, and find what is wrong with them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from os import cpu_count

from reconet.data.check.facts import SampleFacts, gather_facts, meanings
from reconet.data.check.files import find_copies, find_in_files, find_in_splits
from reconet.data.check.labels import find_empty, find_in_values, list_values
from reconet.data.check.report import CheckReport, SplitReport
from reconet.data.check.splits import open_splits, own_options
from reconet.data.dataset import Dataset
from reconet.data.parallel import map_in_processes
from reconet.data.registry import dataset_root
from reconet.data.sets.folder_classes import LABEL_MAP, read_label_map
from reconet.data.sets.folder_masks import FolderOptions
from reconet.errors import DataError
from reconet.recipes.schema import Data
from reconet.system.progress import SILENT, Progress
from reconet.types import IGNORE, Colour


def check_dataset(
    data: Data,
    splits: Sequence[str] = (),
    *,
    subset: bool = False,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> tuple[CheckReport, list[Dataset]]:
    """Check the splits of a dataset that are wanted, by default all that are there.

    A split that nobody asked for may be absent. Also returns the splits that were checked.
    """
    opened = open_splits(data, splits, subset)
    options, colours = own_options(data), {}
    path = dataset_root(data.name, data.root) / LABEL_MAP
    if options is not None and path.is_file():
        with suppress(DataError):  # the classes are known: a file that cannot be read tells nothing
            colours = read_label_map(path)
    report = check_splits(
        opened.datasets,
        subset=subset,
        options=options,
        label_map_file=colours,
        workers=workers,
        progress=progress,
    )
    findings = (*opened.findings, *report.findings)
    whole = replace(report, title=data.title, findings=findings, absent=opened.absent)
    return whole, opened.datasets


def check_splits(
    datasets: Sequence[Dataset],
    *,
    subset: bool = False,
    options: FolderOptions | None = None,
    label_map_file: Mapping[str, Colour] = {},
    workers: int | None = None,
    progress: Progress = SILENT,
) -> CheckReport:
    """Check splits of one dataset. With `subset` they may have fewer images than officially.

    Proposals are made if there are `options` that a user can set. With 0 workers this process
    does the work. None means one worker for each core, or 0 if there are few images.
    """
    facts = _gather(datasets, workers, progress)
    info = datasets[0].info
    about_values = find_in_values(facts, info, options, label_map_file)
    findings = [
        *find_in_splits(datasets, subset),
        *find_in_files(facts),
        *about_values,
        # If masks are read wrongly, a class without pixels says nothing.
        *([] if about_values else find_empty(facts, info, subset)),
        *find_copies(facts, info.disjoint),
    ]
    return CheckReport(
        dataset=info.name,
        classes=info.classes,
        splits=tuple(_split_report(dataset, facts) for dataset in datasets),
        findings=tuple(findings),
        seen=tuple(list_values(facts, info, meanings(datasets[0]))),
    )


def _gather(
    datasets: Sequence[Dataset], workers: int | None, progress: Progress
) -> list[SampleFacts]:
    tasks = [(place, i) for place, dataset in enumerate(datasets) for i in range(len(dataset))]
    if workers is None:  # to start one takes as long as to read some dozens of images
        most = min(cpu_count() or 1, len(tasks) // 64)
        workers = most if most > 1 else 0
    progress.start(len(tasks), "check")
    facts = []
    with closing(map_in_processes(partial(_gather_task, datasets), tasks, workers)) as results:
        for result in results:
            facts.append(result)
            progress.advance()
    return facts


def _gather_task(datasets: Sequence[Dataset], task: tuple[int, int]) -> SampleFacts:
    place, index = task
    return gather_facts(datasets[place], index)


def _split_report(dataset: Dataset, facts: Sequence[SampleFacts]) -> SplitReport:
    own = [fact for fact in facts if fact.split == dataset.split]
    read = [fact for fact in own if not fact.is_broken]
    pixels: Counter[int] = Counter()
    images: Counter[int] = Counter()
    for fact in read:
        pixels.update(fact.mask.labels)
        images.update(fact.mask.labels.keys())
    classes = range(len(dataset.info.classes))
    return SplitReport(
        split=dataset.split,
        images=len(dataset),
        official=dataset.info.splits.get(dataset.split),
        labelled=sum(bool(fact.mask.labels.keys() - {IGNORE}) for fact in read),
        broken=len(own) - len(read),
        void_pixels=pixels[IGNORE],
        pixels_k=tuple(pixels[index] for index in classes),
        images_k=tuple(images[index] for index in classes),
    )
