"""Find what is wrong with files: unreadable, without a partner, of another size, or copies."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from reconet.data.check.facts import SampleFacts
from reconet.data.check.report import Finding, Level, Proposal, find_about, name_some
from reconet.data.dataset import Dataset, FileDataset
from reconet.system.readable import counted

UPRIGHT = Proposal(
    condition="if all masks were drawn on the images as people see them",
    option="upright",
    value=True,
)
Samples = Sequence[SampleFacts]


def find_in_splits(datasets: Sequence[Dataset], subset: bool) -> Iterator[Finding]:
    """Find images and masks without a partner, wrong numbers of images, and names used twice."""
    level: Level = "note" if subset else "problem"
    for dataset in datasets:
        official, count = dataset.info.splits.get(dataset.split), len(dataset)
        if official is not None and (count > official or (count < official and not subset)):
            hint = "" if count > official else ". For a part of the dataset, pass --subset"
            yield Finding(
                kind="count",
                text=f"{counted(count, 'image')}, where there are officially {official}{hint}",
                count=abs(count - official),
                splits=(dataset.split,),
            )
        names = Counter(dataset.name(index) for index in range(count))
        twice = sorted(name for name, times in names.items() if times > 1)
        text = f"{counted(len(twice), 'name')} for several images"
        yield from name_some("name-twice", text, twice, [dataset.split])
    files = [dataset for dataset in datasets if isinstance(dataset, FileDataset)]
    alone = [name for one in files for name in one.without_mask]
    text = f"{counted(len(alone), 'image')} without a mask, which a training leaves out"
    splits = [one.split for one in files if one.without_mask]
    yield from name_some("missing-mask", text, alone, splits, level=level)
    # Where one folder serves several splits, each of them tells all of its masks.
    orphans = _unique(name for one in files for name in one.without_image)
    text = f"{counted(len(orphans), 'mask')} without an image"
    yield from name_some("missing-partner", text, orphans, level=level)


def find_in_files(facts: Samples) -> Iterator[Finding]:
    """Find files that are missing, cannot be read, or do not fit each other."""
    for word, files in (
        ("image", [(fact, fact.image) for fact in facts]),
        ("mask", [(fact, fact.mask) for fact in facts]),
    ):
        missing = [fact for fact, file in files if file.missing]
        text = f"{counted(len(missing), word)} not there"
        yield from find_about(f"missing-{word}", missing, text)
        groups: dict[str, list[SampleFacts]] = defaultdict(list)
        for fact, file in files:
            if file.error and not file.missing:
                groups[file.error].append(fact)
        for reason, some in groups.items():
            text = f"{counted(len(some), word)}: {reason.rstrip('.')}"
            yield from find_about(f"unreadable-{word}", some, text)
    yield from _sizes(facts)


def _sizes(facts: Samples) -> Iterator[Finding]:
    differ = [fact for fact in facts if fact.sizes_differ]
    turned = [fact for fact in differ if fact.image.turn >= 5 and _swapped(fact)]
    other = [fact for fact in differ if fact not in turned]
    if turned:
        text = (
            f"{counted(len(turned), 'image has', 'images have')} an EXIF orientation that turns "
            "height and width, and a mask of the turned size. The orientation is not applied"
        )
        yield from find_about(
            "exif", turned, text, () if any(map(_fits_unturned, facts)) else (UPRIGHT,)
        )
    if other:
        swapped = ". Height and width are swapped" if all(map(_swapped, other)) else ""
        text = (
            f"{counted(len(other), 'mask')} of another size than the image, such as "
            f"{_size(other[0].mask.size)} for {_size(other[0].image.size)} (width x height)"
        )
        yield from find_about("size", other, text + swapped)
    unclear = [
        fact
        for fact in facts
        if fact.image.turn != 1
        and fact.image.size is not None
        and fact.image.size == fact.mask.size
        and (fact.image.turn < 5 or _swapped(fact))
    ]
    text = (
        f"{counted(len(unclear), 'image has', 'images have')} an EXIF orientation, which is "
        "not applied. The sizes do not tell whether the masks fit. Look at --sheet"
    )
    yield from find_about("exif-unclear", unclear, text, level="note")


def find_copies(facts: Samples, disjoint: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """Find images with the same pixels, in one split or in two that must not share any."""
    groups: dict[bytes, list[SampleFacts]] = defaultdict(list)
    for fact in facts:
        if fact.image.digest:
            groups[fact.image.digest].append(fact)
    copies = [group for group in groups.values() if len(group) > 1]
    for splits in disjoint:
        shared = [group for group in copies if set(splits) <= {fact.split for fact in group}]
        text = "{} in both, so that scores would be too good"
        yield from _copies("leak", text, shared, splits)
    for split in _unique(fact.split for fact in facts):
        own = [[fact for fact in group if fact.split == split] for group in copies]
        own = [group for group in own if len(group) > 1]
        differ = [group for group in own if len({f.mask.digest for f in group} - {b""}) > 1]
        same = [group for group in own if group not in differ]
        yield from _copies("duplicate", "{} there more than once", same, (split,))
        text = "{} there more than once, with different masks"
        yield from _copies("duplicate-mask", text, differ, (split,))


def _copies(
    kind: str, text: str, groups: Sequence[Samples], splits: tuple[str, ...]
) -> list[Finding]:
    text = text.format(counted(len(groups), "image is", "images are"))
    names = [_names(group, splits) for group in groups]
    level: Level = "note" if kind == "duplicate" else "problem"
    return name_some(kind, text, names, splits, level=level)


def _names(group: Samples, splits: Sequence[str]) -> str:
    some = [fact for fact in group if fact.split in splits]
    alone = len(splits) == 1
    return " = ".join(_unique(f.name if alone else f"{f.name} of {f.split}" for f in some))


def _fits_unturned(fact: SampleFacts) -> bool:
    """Return whether the sizes tell that a mask was drawn on an image that was not turned."""
    return fact.image.turn >= 5 and fact.image.size == fact.mask.size and not _swapped(fact)


def _swapped(fact: SampleFacts) -> bool:
    return fact.mask.size is not None and fact.image.size == fact.mask.size[::-1]


def _size(size: tuple[int, int] | None) -> str:
    return "?" if size is None else f"{size[1]} x {size[0]}"


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
