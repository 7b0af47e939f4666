"""Gather the facts of all files, and find what is wrong with them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from os import cpu_count
from typing import NamedTuple

import numpy as np

from reconet.data.check.facts import SampleFacts, gather_facts
from reconet.data.check.files import find_copies, find_in_files, find_in_splits
from reconet.data.check.labels import find_empty, find_in_values, list_values
from reconet.data.check.report import CheckReport, Finding, SplitReport
from reconet.data.check.splits import find_absent_splits, find_unused_splits, propose_splits
from reconet.data.dataset import Dataset, DatasetInfo, FileDataset
from reconet.data.labels import ILLEGAL, LabelReader
from reconet.data.parallel import map_in_processes
from reconet.data.registry import DATASETS, dataset_options, dataset_root, open_split
from reconet.data.sets.folder import split_places
from reconet.data.sets.folder_classes import LABEL_MAP, read_label_map
from reconet.data.sets.folder_masks import ColourReader, FolderOptions
from reconet.errors import AbsentError, DataError, pick
from reconet.recipes.schema import Data
from reconet.system.progress import SILENT, Progress
from reconet.types import IGNORE, Colour

# Public datasets whose colours people use for their own masks.
PALETTES: tuple[DatasetInfo, ...] = tuple(entry.info for entry in DATASETS.values())


class Hints(NamedTuple):
    """What proposals can be made from: options that a user can set, and colours by name."""

    options: FolderOptions | None = None
    colours: Mapping[str, Colour] = {}


class Opened(NamedTuple):
    """The splits of a dataset that are there, and why others are not."""

    datasets: list[Dataset]
    absent: dict[str, str]
    broken: tuple[Finding, ...]


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
    opened = open_splits(data, splits)
    hints = _hints(data)
    report = check_splits(
        opened.datasets, subset=subset, hints=hints, workers=workers, progress=progress
    )
    about_splits = [] if subset or splits else _find_about_splits(data, hints.options, opened)
    whole = CheckReport(
        dataset=report.dataset,
        title=data.title,
        classes=report.classes,
        splits=report.splits,
        findings=(*opened.broken, *about_splits, *report.findings),
        seen=report.seen,
        absent=opened.absent,
    )
    return whole, opened.datasets


def open_splits(data: Data, wanted: Sequence[str] = ()) -> Opened:
    """Open the splits that are wanted, by default all that are there."""
    entry = pick(DATASETS, data.name, "dataset")
    if wanted:
        return Opened([open_split(data, split) for split in wanted], {}, ())
    own = data.options.get("splits")
    names = [*own, *_needed(data)] if isinstance(own, dict) else list(entry.info.splits)
    found: list[Dataset] = []
    errors: dict[str, DataError] = {}
    for split in dict.fromkeys(names):
        try:
            found.append(open_split(data, split))
        except DataError as error:
            errors[split] = error
    if not found:
        raise _nothing_opens(data, errors)
    absent = {split: str(e) for split, e in errors.items() if isinstance(e, AbsentError)}
    broken = tuple(
        Finding(kind="split", text=str(error).rstrip("."), splits=(split,))
        for split, error in errors.items()
        if split not in absent
    )
    return Opened(found, absent, broken)


def _nothing_opens(data: Data, errors: Mapping[str, DataError]) -> DataError:
    """Return the error of the first split, with what may be meant by it."""
    first = next(iter(errors.values()))
    options = _hints(data).options
    if options is None or not isinstance(first, AbsentError):
        return first
    root = dataset_root(data.name, data.root)
    places = split_places(root, options)
    proposed = propose_splits(places, options, list(errors), _needed(data))
    lines = [line for one in proposed for line in one.lines()]
    return AbsentError(" ".join([str(first), *lines]))


def _needed(data: Data) -> tuple[str, str]:
    """Return the splits without which nothing can be trained."""
    return data.train_split, data.val_split


def _find_about_splits(data: Data, options: FolderOptions | None, opened: Opened) -> list[Finding]:
    """Find splits of a user's own folder that are not there, or not used."""
    if options is None:
        return []
    root = dataset_root(data.name, data.root)
    needed = tuple(dict.fromkeys((*_needed(data), *(options.splits or ()))))
    return [
        *find_absent_splits(root, options, opened.absent, needed),
        *find_unused_splits(root, options),
    ]


def check_splits(
    datasets: Sequence[Dataset],
    *,
    subset: bool = False,
    hints: Hints = Hints(),  # noqa: B008
    workers: int | None = None,
    progress: Progress = SILENT,
) -> CheckReport:
    """Check splits of one dataset. With `subset` they may have fewer images than officially.

    With 0 workers this process does the work. None means one worker for each core, or 0 if
    there are few images.
    """
    facts = _gather(datasets, workers, progress)
    info = datasets[0].info
    about_values = find_in_values(facts, info, hints.options, hints.colours, PALETTES)
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
        seen=tuple(list_values(facts, info, _meanings(datasets[0]))),
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


def _hints(data: Data) -> Hints:
    """Return what proposals for a folder of a user's own can be made from."""
    if DATASETS[data.name].options is not FolderOptions:
        return Hints()
    root = dataset_root(data.name, data.root)
    options = dataset_options(data.name, root, data.options)
    assert isinstance(options, FolderOptions)
    colours = {}
    with suppress(DataError):  # the classes are known, so a file that cannot be read tells nothing
        colours = read_label_map(root / LABEL_MAP) if (root / LABEL_MAP).is_file() else {}
    return Hints(options, colours)


def _meanings(dataset: Dataset) -> dict[int, int]:
    """Return the label of each number or colour in masks."""
    read = dataset.read_label if isinstance(dataset, FileDataset) else None
    if isinstance(read, LabelReader):
        legal = np.flatnonzero(read.table_n != ILLEGAL).tolist()
        return {number: int(read.table_n[number]) for number in legal}
    if isinstance(read, ColourReader):
        return dict(zip(read.code_n.tolist(), read.label_n.tolist(), strict=True))
    return {label: label for label in (*range(len(dataset.info.classes)), IGNORE)}


def _split_report(dataset: Dataset, facts: Sequence[SampleFacts]) -> SplitReport:
    own = [fact for fact in facts if fact.split == dataset.split]
    pixels: Counter[int] = Counter()
    images: Counter[int] = Counter()
    read = [fact for fact in own if not _is_broken(fact)]
    for fact in read:
        if fact.mask is not None:
            pixels.update(fact.mask.labels)
            images.update(fact.mask.labels.keys())
    classes = range(len(dataset.info.classes))
    return SplitReport(
        split=dataset.split,
        images=len(dataset),
        official=dataset.info.splits.get(dataset.split),
        labelled=sum(bool(f.mask and f.mask.labels.keys() - {IGNORE}) for f in read),
        broken=len(own) - len(read),
        void_pixels=pixels[IGNORE],
        pixels_k=tuple(pixels[index] for index in classes),
        images_k=tuple(images[index] for index in classes),
    )


def _is_broken(fact: SampleFacts) -> bool:
    mask = fact.mask
    if fact.image.error:
        return True
    if mask is None:
        return False
    unread = mask.error or mask.illegal or mask.unread_colours
    return bool(unread) or mask.size != fact.image.size
