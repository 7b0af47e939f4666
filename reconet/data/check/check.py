"""Open the splits of a dataset, gather the facts of all files, and find what is wrong."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from os import cpu_count
from pathlib import Path
from typing import cast

from reconet.data.check.find import (
    find_copies,
    find_empty,
    find_in_files,
    find_in_splits,
    find_in_values,
    list_values,
)
from reconet.data.check.gather import SampleFacts, gather_facts, meanings
from reconet.data.check.report import CheckReport, Finding, Proposal, SplitReport
from reconet.data.dataset import Dataset
from reconet.data.layout import split_called
from reconet.data.parallel import map_in_processes
from reconet.data.registry import DATASETS, dataset_options, dataset_root, open_split
from reconet.data.sets.folder import SPLITS, split_places
from reconet.data.sets.folder_masks import LABEL_MAP, FolderOptions, read_label_map
from reconet.data.widths import widths_of
from reconet.errors import AbsentError, DataError, pick
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
    entry, own = pick(DATASETS, data.name, "dataset"), data.options.get("splits")
    needed = (data.train_split, data.val_split)
    names = [*own, *needed] if isinstance(own, dict) else entry.info.splits
    opened: list[Dataset] = []
    errors: dict[str, DataError] = {}
    for split in dict.fromkeys(splits or names):
        try:
            opened.append(open_split(data, split))
        except DataError as error:
            if splits:
                raise
            errors[split] = error
    root, options = dataset_root(data.name, data.root), None
    if entry.options is FolderOptions:
        options = cast(FolderOptions, dataset_options(data.name, root, data.options))
    if not opened:
        raise next(iter(errors.values()))
    absent = {split: str(e) for split, e in errors.items() if isinstance(e, AbsentError)}
    findings = [
        Finding(kind="split", text=str(error).rstrip("."), splits=(split,))
        for split, error in errors.items()
        if split not in absent
    ]
    colours: dict[str, Colour] = {}
    if options is not None:
        with suppress(DataError):  # a file that is not there, or cannot be read, tells nothing
            colours = read_label_map(root / LABEL_MAP)
        if not subset and not splits:
            needed = tuple(dict.fromkeys((*needed, *(options.splits or ()))))
            findings += _find_in_places(root, options, [s for s in needed if s in absent], needed)
    report = check_splits(
        opened,
        subset=subset,
        options=options,
        label_map_file=colours,
        workers=workers,
        progress=progress,
    )
    findings += report.findings
    return replace(report, title=data.title, findings=tuple(findings), absent=absent), opened


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
    tasks = [(place, i) for place, dataset in enumerate(datasets) for i in range(len(dataset))]
    if workers is None:  # to start one takes as long as to read some dozens of images
        most = min(cpu_count() or 1, len(tasks) // 64)
        workers = most if most > 1 else 0
    progress.start(len(tasks), "check")
    facts = []
    with closing(map_in_processes(partial(_gather, datasets), tasks, workers)) as results:
        for result in results:
            facts.append(result)
            progress.advance()
    info = datasets[0].info
    about_values = list(find_in_values(facts, info, options, label_map_file))
    findings = [
        *find_in_splits(datasets, subset),
        *find_in_files(facts, options),
        *about_values,
        # If masks are read wrongly, a class without pixels says nothing.
        *([] if about_values else find_empty(facts, info, subset)),
        *find_copies(facts, info.disjoint, options),
    ]
    return CheckReport(
        dataset=info.name,
        classes=info.classes,
        splits=tuple(_count(dataset, facts) for dataset in datasets),
        findings=tuple(findings),
        seen=tuple(list_values(facts, info, meanings(datasets[0]))),
    )


def _gather(datasets: Sequence[Dataset], task: tuple[int, int]) -> SampleFacts:
    place, index = task
    return gather_facts(datasets[place], index)


def _count(dataset: Dataset, facts: Sequence[SampleFacts]) -> SplitReport:
    own = [fact for fact in facts if fact.split == dataset.split]
    read = [fact for fact in own if not fact.is_broken]
    pixels, images = Counter[int](), Counter[int]()
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
        widths_k=tuple(
            widths_of(fact.mask.widths.get(index, {}) for fact in read) for index in classes
        ),
    )


def _find_in_places(
    root: Path, options: FolderOptions, missing: Sequence[str], needed: Sequence[str]
) -> Iterator[Finding]:
    """Find splits that a training needs and that are not there, and places that nothing uses.

    Places are folders and lists. Their names are all that this looks at.
    """
    places = [] if options.pairs else split_places(root, options)
    stems = {place: place.removesuffix(".txt") for place in reversed(places)}
    named = {split_called(stem): place for place, stem in stems.items()}
    called = {split: named[split] for split in SPLITS if split in named}
    by_split = "{split}" in options.images
    proposals = []
    if missing:
        meant = called | {s: p for s, p in (options.splits or {}).items() if s not in missing}
        if missing == ["val"] and "val" not in meant and "test" in meant:
            meant["val"] = meant.pop("test")
        if set(needed) <= meant.keys():
            proposals = [_as_splits({split: meant[split] for split in needed})]
        elif missing == ["val"] and "train" in places and not by_split:
            use: dict[str, object] = {"splits": None} if options.splits else {}
            use |= {name: f"{getattr(options, name)}/train" for name in ("images", "masks")}
            proposals = [Proposal("if a part of train may serve as val", use)]
        listed = f". There are: {', '.join(places)}" if places else ""
        yield Finding(
            kind="split-absent",
            text=f"there is no {' and no '.join(missing)}, which a training needs{listed}",
            count=len(missing),
            proposals=tuple(proposals),
        )
    used = options.splits or by_split or any(stem in SPLITS for stem in stems.values())
    if not missing and not used and {"train", "val"} <= called.keys():
        yield Finding(
            kind="split-unused",
            text=f"{called['train']} and {called['val']} look like splits, but are not used: "
            "a part of all images is val",
            proposals=(_as_splits(called),),
        )


def _as_splits(splits: Mapping[str, str]) -> Proposal:
    means = " and ".join(f"{place} is {split}" for split, place in splits.items())
    return Proposal(f"if {means}", {"splits": dict(splits)})
