"""Open the splits of a dataset, and find which of a user's own folder are absent or not used.

Names of folders and lists are all that this looks at.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from reconet.data.check.report import Finding, Proposal
from reconet.data.dataset import Dataset
from reconet.data.registry import DATASETS, dataset_options, dataset_root, open_split
from reconet.data.sets.folder import SPLITS, split_places
from reconet.data.sets.folder_masks import FolderOptions
from reconet.errors import AbsentError, DataError, pick
from reconet.recipes.schema import Data

OTHER_NAMES = {
    "train": ("train", "training", "trn"),
    "val": ("val", "valid", "validation", "dev", "eval"),
    "test": ("test", "testing"),
}


class Opened(NamedTuple):
    """The splits of a dataset that are there, why others are not, and what is wrong with them."""

    datasets: list[Dataset]
    absent: dict[str, str]
    findings: list[Finding]


def open_splits(data: Data, wanted: Sequence[str] = (), subset: bool = False) -> Opened:
    """Open the splits that are wanted, by default all that are there."""
    entry = pick(DATASETS, data.name, "dataset")
    if wanted:
        return Opened([open_split(data, split) for split in wanted], {}, [])
    own = data.options.get("splits")
    needed = (data.train_split, data.val_split)
    names = [*own, *needed] if isinstance(own, dict) else list(entry.info.splits)
    found: list[Dataset] = []
    errors: dict[str, DataError] = {}
    for split in dict.fromkeys(names):
        try:
            found.append(open_split(data, split))
        except DataError as error:
            errors[split] = error
    absent = {split: str(e) for split, e in errors.items() if isinstance(e, AbsentError)}
    findings = [
        Finding(kind="split", text=str(error).rstrip("."), splits=(split,))
        for split, error in errors.items()
        if split not in absent
    ]
    root, options = dataset_root(data.name, data.root), own_options(data)
    if not found:
        raise next(iter(errors.values()))
    if options is not None and not subset:
        needed = tuple(dict.fromkeys((*needed, *(options.splits or ()))))
        findings += _find_absent(root, options, absent, needed)
        findings += _find_unused(root, options)
    return Opened(found, absent, findings)


def own_options(data: Data) -> FolderOptions | None:
    """Return the options of a folder of a user's own, or None for another dataset."""
    if DATASETS[data.name].options is not FolderOptions:
        return None
    options = dataset_options(data.name, dataset_root(data.name, data.root), data.options)
    assert isinstance(options, FolderOptions)
    return options


def _find_absent(
    root: Path, options: FolderOptions, absent: Collection[str], needed: Sequence[str]
) -> Iterator[Finding]:
    """Find splits that a training needs and that are not there."""
    missing = [split for split in needed if split in absent]
    if missing:
        places = [] if options.pairs else split_places(root, options)
        listed = f". There are: {', '.join(places)}" if places else ""
        yield Finding(
            kind="split-absent",
            text=f"there is no {' and no '.join(missing)}, which a training needs{listed}",
            count=len(missing),
            proposals=tuple(_propose(places, options, absent, needed)),
        )


def _find_unused(root: Path, options: FolderOptions) -> Iterator[Finding]:
    """Find folders or lists that look like train and val, where a hash makes the splits."""
    if options.pairs or options.splits or "{split}" in options.images:
        return
    places = split_places(root, options)
    if any(_stem(place) in SPLITS for place in places):
        return  # these are used
    guessed = _guess(places, ("train", "val"))
    if len(guessed) == 2:
        names = " and ".join(guessed.values())
        yield Finding(
            kind="split-unused",
            text=f"{names} look like splits, but are not used: a part of all images is val",
            proposals=(_splits_proposal(guessed | _guess(places, ("test",))),),
        )


def _propose(
    places: Sequence[str], options: FolderOptions, absent: Collection[str], needed: Sequence[str]
) -> Iterator[Proposal]:
    """Propose which folders or lists may be meant by the splits that are not there."""
    here = {split: _place_now(split, places, options) for split in needed if split not in absent}
    missing = [split for split in needed if split in absent]
    free = [place for place in places if place not in here.values()]
    guessed = _guess(free, missing)
    if missing == ["val"] and not guessed:
        guessed = dict([("val", place) for place in free if _stem(place) == "test"][:1])
    if len(guessed) == len(missing):
        yield _splits_proposal({split: (here | guessed)[split] for split in needed})
    elif missing == ["val"] and here.get("train") == "train" and "{split}" not in options.images:
        yield Proposal(
            condition="if a part of train may serve as val",
            option="images",
            value=f"{options.images}/train",
            also={"masks": f"{options.masks}/train"} | ({"splits": None} if options.splits else {}),
        )


def _splits_proposal(splits: Mapping[str, str]) -> Proposal:
    means = " and ".join(f"{place} is {split}" for split, place in splits.items())
    return Proposal(condition=f"if {means}", option="splits", value=dict(splits))


def _place_now(split: str, places: Sequence[str], options: FolderOptions) -> str:
    """Return the folder or list of a split that is there."""
    if options.splits:
        return options.splits[split]
    return next((place for place in places if _stem(place) == split), split)


def _guess(places: Sequence[str], splits: Sequence[str]) -> dict[str, str]:
    """Return the place whose name is most like each split, for those that have one."""
    guessed: dict[str, str] = {}
    for split in splits:
        free = {_stem(place).lower(): place for place in places if place not in guessed.values()}
        names = OTHER_NAMES.get(split, (split,))
        near = [stem for name in names for stem in get_close_matches(name, free, 1)]
        if near:
            guessed[split] = free[near[0]]
    return guessed


def _stem(place: str) -> str:
    return place.removesuffix(".txt").rsplit("/", 1)[-1]
