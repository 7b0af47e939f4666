"""Find what is wrong with files: unreadable, without a partner, of another size, or copies."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from reconet.data.check.facts import SampleFacts
from reconet.data.check.report import EXAMPLES, Finding, Level, Proposal
from reconet.data.dataset import Dataset, FileDataset
from reconet.system.readable import counted

UPRIGHT = Proposal(
    condition="if all masks were drawn on the images as people see them",
    option="upright",
    value=True,
)


def find_in_files(facts: Sequence[SampleFacts]) -> Iterator[Finding]:
    """Find files that are missing, cannot be read, or do not fit each other."""
    yield from _missing(facts)
    yield from _unreadable(facts)
    yield from _sizes(facts)
    yield from _turned(facts)


def find_in_splits(datasets: Sequence[Dataset], subset: bool) -> Iterator[Finding]:
    """Find images and masks without a partner, wrong numbers of images, and names used twice."""
    level: Level = "note" if subset else "problem"
    for dataset in datasets:
        yield from _count(dataset, subset)
        names = [dataset.name(index) for index in range(len(dataset))]
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if twice:
            yield Finding(
                kind="name-twice",
                text=f"{counted(len(twice), 'name')} for several images",
                count=len(twice),
                splits=(dataset.split,),
                examples=tuple(twice[:EXAMPLES]),
            )
    files = [dataset for dataset in datasets if isinstance(dataset, FileDataset)]
    without_mask = [(one.split, name) for one in files for name in one.without_mask]
    if without_mask:
        yield Finding(
            kind="missing-mask",
            level=level,
            text=f"{counted(len(without_mask), 'image')} without a mask, which a training leaves "
            "out",
            count=len(without_mask),
            splits=_unique(split for split, _ in without_mask),
            examples=tuple(name for _, name in without_mask[:EXAMPLES]),
        )
    # Where one folder serves several splits, each of them tells all of its masks.
    orphans = _unique(name for one in files for name in one.without_image)
    if orphans:
        yield Finding(
            kind="missing-partner",
            level=level,
            text=f"{counted(len(orphans), 'mask')} without an image",
            count=len(orphans),
            examples=orphans[:EXAMPLES],
        )


def find_copies(
    facts: Sequence[SampleFacts], disjoint: Sequence[tuple[str, str]]
) -> Iterator[Finding]:
    """Find images with the same pixels, in one split or in two that must not share any."""
    groups: dict[bytes, list[SampleFacts]] = defaultdict(list)
    for fact in facts:
        if fact.image.digest:
            groups[fact.image.digest].append(fact)
    copies = [group for group in groups.values() if len(group) > 1]
    for one, other in disjoint:
        shared = [group for group in copies if {one, other} <= {fact.split for fact in group}]
        if shared:
            names = [_names(group, (one, other)) for group in shared]
            yield Finding(
                kind="leak",
                text=f"{counted(len(shared), 'image is', 'images are')} in both, so that scores "
                "would be too good",
                count=len(shared),
                splits=(one, other),
                examples=tuple(names[:EXAMPLES]),
            )
    for split in _unique(fact.split for fact in facts):
        own = [[fact for fact in group if fact.split == split] for group in copies]
        yield from _copies_in(split, [group for group in own if len(group) > 1])


def _copies_in(split: str, groups: Sequence[Sequence[SampleFacts]]) -> Iterator[Finding]:
    differ = [g for g in groups if len({f.mask.digest for f in g if f.mask is not None}) > 1]
    same = [group for group in groups if group not in differ]
    if same:
        yield Finding(
            kind="duplicate",
            level="note",
            text=f"{counted(len(same), 'image is', 'images are')} there more than once",
            count=len(same),
            splits=(split,),
            examples=tuple(_names(group, (split,)) for group in same[:EXAMPLES]),
        )
    if differ:
        yield Finding(
            kind="duplicate-mask",
            text=f"{counted(len(differ), 'image is', 'images are')} there more than once, with "
            "different masks",
            count=len(differ),
            splits=(split,),
            examples=tuple(_names(group, (split,)) for group in differ[:EXAMPLES]),
        )


def _names(group: Sequence[SampleFacts], splits: Sequence[str]) -> str:
    some = [fact for fact in group if fact.split in splits]
    alone = len(splits) == 1
    return " = ".join(_unique(f.name if alone else f"{f.name} of {f.split}" for f in some))


def _count(dataset: Dataset, subset: bool) -> Iterator[Finding]:
    official, count = dataset.info.splits.get(dataset.split), len(dataset)
    if official is not None and (count > official or (count < official and not subset)):
        hint = "" if count > official else ". For a part of the dataset, pass --subset"
        yield Finding(
            kind="count",
            text=f"{counted(count, 'image')}, where there are officially {official}{hint}",
            count=abs(count - official),
            splits=(dataset.split,),
        )


def _missing(facts: Sequence[SampleFacts]) -> Iterator[Finding]:
    images = [fact for fact in facts if fact.image.missing]
    masks = [fact for fact in facts if fact.mask is not None and fact.mask.missing]
    if images:
        yield _finding("missing-image", images, counted(len(images), "image") + " not there")
    if masks:
        yield _finding("missing-mask", masks, counted(len(masks), "mask") + " not there")


def _unreadable(facts: Sequence[SampleFacts]) -> Iterator[Finding]:
    kinds: list[tuple[str, str, Callable[[SampleFacts], str]]] = [
        ("unreadable-image", "image", lambda f: "" if f.image.missing else f.image.error),
        (
            "unreadable-mask",
            "mask",
            lambda f: "" if f.mask is None or f.mask.missing else f.mask.error,
        ),
    ]
    for kind, word, reason_of in kinds:
        groups: dict[str, list[SampleFacts]] = defaultdict(list)
        for fact in facts:
            if reason := reason_of(fact):
                groups[reason].append(fact)
        for reason, some in groups.items():
            text = f"{counted(len(some), word)}: {reason.rstrip('.')}"
            yield _finding(kind, some, text)


def _sizes(facts: Sequence[SampleFacts]) -> Iterator[Finding]:
    differ = [fact for fact in facts if _both_read(fact) and fact.image.size != fact.mask.size]  # type: ignore[union-attr]
    turned = [fact for fact in differ if fact.image.turn >= 5 and _swapped(fact)]
    other = [fact for fact in differ if fact not in turned]
    if turned:
        text = (
            f"{counted(len(turned), 'image has', 'images have')} an EXIF orientation that turns "
            "height and width, and a mask of the turned size. The orientation is not applied"
        )
        yield _finding("exif", turned, text, () if any(map(_fits_unturned, facts)) else (UPRIGHT,))
    if other:
        fact = other[0]
        assert fact.mask is not None
        swapped = " Height and width are swapped." if all(map(_swapped, other)) else ""
        text = (
            f"{counted(len(other), 'mask')} of another size than the image, such as "
            f"{_size(fact.mask.size)} for {_size(fact.image.size)} (width x height).{swapped}"
        )
        yield _finding("size", other, text.rstrip("."))


def _turned(facts: Sequence[SampleFacts]) -> Iterator[Finding]:
    """Find images that may be turned, where the sizes of the masks do not tell."""
    unclear = [
        fact
        for fact in facts
        if _both_read(fact)
        and fact.image.turn != 1
        and fact.image.size == fact.mask.size  # type: ignore[union-attr]
        and (fact.image.turn < 5 or fact.image.size[0] == fact.image.size[1])
    ]
    if unclear:
        text = (
            f"{counted(len(unclear), 'image has', 'images have')} an EXIF orientation, which is "
            "not applied. The sizes do not tell whether the masks fit. Look at --sheet"
        )
        yield _finding("exif-unclear", unclear, text, level="note")


def _finding(
    kind: str,
    facts: Sequence[SampleFacts],
    text: str,
    proposals: tuple[Proposal, ...] = (),
    level: Level = "problem",
) -> Finding:
    return Finding(
        kind=kind,
        level=level,
        text=text,
        count=len(facts),
        splits=_unique(fact.split for fact in facts),
        examples=tuple(fact.name for fact in facts[:EXAMPLES]),
        proposals=proposals,
    )


def _both_read(fact: SampleFacts) -> bool:
    return not fact.image.error and fact.mask is not None and fact.mask.size != (0, 0)


def _fits_unturned(fact: SampleFacts) -> bool:
    """Return whether the sizes tell that a mask was drawn on an image that was not turned."""
    height, width = fact.image.size
    fits = fact.mask is not None and fact.mask.size == fact.image.size
    return fits and fact.image.turn >= 5 and height != width


def _swapped(fact: SampleFacts) -> bool:
    return fact.mask is not None and fact.image.size == fact.mask.size[::-1]


def _size(size: tuple[int, int]) -> str:
    return f"{size[1]} x {size[0]}"


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
