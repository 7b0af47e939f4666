"""Find splits of a user's own folder that a training needs, and folders that may be meant by them.

Names of folders and lists are all that this looks at.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from reconet.data.check.report import Finding, Proposal
from reconet.data.sets.folder import SPLITS, split_places
from reconet.data.sets.folder_masks import FolderOptions

OTHER_NAMES = {
    "train": ("train", "training", "trn"),
    "val": ("val", "valid", "validation", "dev", "eval"),
    "test": ("test", "testing"),
}
ALIKE = 0.65  # how similar two spellings of a name are, as difflib measures it


def find_absent_splits(
    root: Path, options: FolderOptions, absent: Collection[str], needed: Sequence[str]
) -> Iterator[Finding]:
    """Find splits that a training needs and that are not there."""
    missing = [split for split in needed if split in absent]
    if not missing:
        return
    places = [] if options.pairs else split_places(root, options)
    listed = f". There are: {', '.join(places)}" if places else ""
    yield Finding(
        kind="split-absent",
        text=f"there is no {' and no '.join(missing)}, which a training needs{listed}",
        count=len(missing),
        proposals=tuple(propose_splits(places, options, absent, needed)),
    )


def find_unused_splits(root: Path, options: FolderOptions) -> Iterator[Finding]:
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


def propose_splits(
    places: Sequence[str], options: FolderOptions, absent: Collection[str], needed: Sequence[str]
) -> Iterator[Proposal]:
    """Propose which folders or lists may be meant by the splits that are not there."""
    here = {split: _place_now(split, places, options) for split in needed if split not in absent}
    missing = [split for split in needed if split in absent]
    free = [place for place in places if place not in here.values()]
    guessed = _guess(free, missing)
    if missing == ["val"] and not guessed:
        tests = [place for place in free if _stem(place) == "test"]
        guessed = dict.fromkeys(missing, tests[0]) if tests else {}
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
        names = OTHER_NAMES.get(split, (split,))
        free = {_stem(place).lower(): place for place in places if place not in guessed.values()}
        near = (
            [stem for stem in free if stem in names]
            or [stem for stem in free if stem.startswith(split)]
            or [stem for name in names for stem in get_close_matches(name, free, 1, ALIKE)]
        )
        if near:
            guessed[split] = free[near[0]]
    return guessed


def _stem(place: str) -> str:
    return place.removesuffix(".txt").rsplit("/", 1)[-1]
