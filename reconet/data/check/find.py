"""Find what is wrong with files and labels. A finding is a pure function of the gathered facts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reconet.data.check.gather import MOST_VALUES, SampleFacts, Values
from reconet.data.check.propose import propose_for_colours, propose_for_numbers, propose_table
from reconet.data.check.report import Finding, Level, Proposal, SeenValue, name_some
from reconet.data.dataset import Dataset, DatasetInfo, FileDataset
from reconet.data.labels import ranges
from reconet.data.sets.folder_masks import FolderOptions, colour_of
from reconet.system.readable import counted
from reconet.types import IGNORE, Colour

MOST_NAMED = 5  # values in one line
UPRIGHT = Proposal(
    "if all masks were drawn on the images as people see them",
    {"upright": True},
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


def find_in_files(facts: Samples, options: FolderOptions | None = None) -> Iterator[Finding]:
    """Find files that are missing, cannot be read, or do not fit each other."""

    def out(some: Samples) -> list[Proposal]:
        return _exclude("to leave them out", some, facts, options)

    for word in ("image", "mask"):
        files = [(fact, fact.image if word == "image" else fact.mask) for fact in facts]
        missing = [fact for fact, file in files if file.missing]
        text = f"{counted(len(missing), word)} not there"
        yield from _about(f"missing-{word}", missing, text, out(missing))
        groups: dict[str, list[SampleFacts]] = defaultdict(list)
        for fact, file in files:
            if file.error and not file.missing:
                groups[file.error].append(fact)
        for reason, some in groups.items():
            text = f"{counted(len(some), word)}: {reason.rstrip('.')}"
            yield from _about(f"unreadable-{word}", some, text, out(some))
    differ = [fact for fact in facts if fact.sizes_differ]
    turned = [fact for fact in differ if fact.image.turn >= 5 and fact.is_swapped]
    other = [fact for fact in differ if fact not in turned]
    as_stored = [fact for fact in facts if fact.image.turn > 1 and _same_size(fact)]
    text = (
        f"{counted(len(turned), 'image has', 'images have')} an EXIF orientation that turns "
        "height and width, and a mask of the turned size. The orientation is not applied"
    )
    told = any(fact.image.turn >= 5 and not fact.is_swapped for fact in as_stored)
    yield from _about("exif", turned, text, [*([] if told else [UPRIGHT]), *out(turned)])
    if other:
        sizes = f"{_size(other[0].mask.size)} for {_size(other[0].image.size)} (width x height)"
        text = f"{counted(len(other), 'mask')} of another size than the image, such as {sizes}"
        swapped = all(fact.is_swapped for fact in other)
        yield from _about(
            "size", other, text + ". Height and width are swapped" * swapped, out(other)
        )
    unclear = [fact for fact in as_stored if fact.image.turn < 5 or fact.is_swapped]
    text = (
        f"{counted(len(unclear), 'image has', 'images have')} an EXIF orientation, which is "
        "not applied. The sizes do not tell whether the masks fit. Look at --sheet"
    )
    yield from _about("exif-unclear", unclear, text, level="note")


def _exclude(
    condition: str, some: Samples, facts: Samples, options: FolderOptions | None
) -> list[Proposal]:
    """Propose to leave out some images. This helps where files cannot be changed."""
    if options is None or not some or 2 * len(some) > len(facts):
        return []
    times = Counter(fact.name for fact in facts)
    names = (f.name if times[f.name] == 1 else f"{f.split}/{f.name}" for f in some)
    return [Proposal(condition, {"exclude": [*dict.fromkeys((*options.exclude, *names))]})]


def find_copies(
    facts: Samples, disjoint: Sequence[tuple[str, str]], options: FolderOptions | None = None
) -> Iterator[Finding]:
    """Find images with the same pixels, in one split or in two that must not share any."""
    groups: dict[bytes, list[SampleFacts]] = defaultdict(list)
    for fact in facts:
        if fact.image.digest:
            groups[fact.image.digest].append(fact)
    copies = [group for group in groups.values() if len(group) > 1]
    for splits in disjoint:
        shared = [[fact for fact in group if fact.split in splits] for group in copies]
        both = [group for group in shared if len({fact.split for fact in group}) == 2]
        names = [" = ".join(_unique(f"{f.name} of {f.split}" for f in group)) for group in both]
        text = counted(len(both), "image is", "images are")
        text += " in both, so that scores would be too good"
        first = [fact for group in both for fact in group if fact.split == splits[0]]
        out = _exclude(f"to leave them out of {splits[0]}", first, facts, options)
        yield from name_some("leak", text, names, splits, proposals=out)
    for split in _unique(fact.split for fact in facts):
        by_kind: dict[str, list[str]] = {"duplicate": [], "duplicate-mask": []}
        contradict: list[SampleFacts] = []
        for group in copies:
            own = [fact for fact in group if fact.split == split]
            differ = len({fact.mask.digest for fact in own} - {b""}) > 1
            if len(own) > 1:
                names = by_kind["duplicate-mask" if differ else "duplicate"]
                names.append(" = ".join(_unique(fact.name for fact in own)))
                contradict += own if differ else []
        for kind, names in by_kind.items():
            level: Level = "note" if kind == "duplicate" else "problem"
            text = f"{counted(len(names), 'image is', 'images are')} there more than once"
            out = []
            if kind == "duplicate-mask":
                text += ", with different masks"
                out = _exclude("to leave out all of them", contradict, facts, options)
            yield from name_some(kind, text, names, [split], level=level, proposals=out)


def find_in_values(
    facts: Samples,
    info: DatasetInfo,
    options: FolderOptions | None,
    label_map_file: Mapping[str, Colour],
) -> Iterator[Finding]:
    """Find numbers and colours in masks that no class has, with proposals if there are options."""
    unread = [fact for fact in facts if fact.mask.unread]
    values = _values(unread)
    text = (
        f"{counted(len(unread), 'mask holds', 'masks hold')} colours, not class numbers: "
        f"{_colour_list(values, values.pixels)}"
    )
    proposed = propose_for_colours(values, options, label_map_file) if unread and options else []
    yield from _about("colours-unread", unread, text, proposed)
    unknown = [fact for fact in facts if fact.mask.are_colours and fact.mask.illegal]
    text = (
        f"{counted(len(unknown), 'mask holds', 'masks hold')} colours that data.options.colours "
        f"does not have: {_colour_list(_values(unknown), _illegal(unknown))}"
    )
    yield from _about("colours-unknown", unknown, text)
    numbered = [fact for fact in facts if fact.mask.values and not fact.mask.are_colours]
    values, wrong = _values(numbered), [fact for fact in numbered if fact.mask.illegal]
    if wrong:
        yield _outside(wrong, values, info, options)
    if options is None or unread or unknown or wrong:
        return
    proposal = propose_table(values, options) if options.label_map is None and numbered else None
    proposals = (proposal,) if proposal else ()
    if len(options.classes) == 1 and facts:
        text = (
            f"there is one class, {options.classes[0]}, so that every prediction is right. What is "
            "not of this class needs a class too, such as background"
        )
        yield Finding(kind="one-class", text=text, proposals=proposals)
    elif proposals:
        high = max(values.pixels)
        share = f"{100 * values.share(high):.2g} % of the pixels"
        text = f"{high} in the masks means void ({share}), and {options.classes[-1]} has no pixel"
        yield from _about("label-void", numbered, text, proposals)


def _outside(
    wrong: Samples, values: Values, info: DatasetInfo, options: FolderOptions | None
) -> Finding:
    illegal, count = _illegal(wrong), len(info.classes)
    named = [
        f"{value} ({100 * values.share(value):.2g} % of the pixels, in "
        f"{counted(values.masks[value], 'mask')})"
        for value, _ in illegal.most_common(MOST_NAMED)
    ]
    more = f" and {counted(len(illegal) - len(named), 'other value')}" * (len(illegal) > len(named))
    text = (
        f"{counted(len(wrong), 'mask holds', 'masks hold')} labels that no class has: "
        f"{', '.join(named)}{more}. There {'is' if count == 1 else 'are'} "
        f"{counted(count, 'class', 'classes')}: {ranges(list(range(count)))}"
    )
    proposals = propose_for_numbers(values, illegal, options) if options else ()
    return _about("label-outside", wrong, text, proposals)[0]


def find_empty(facts: Samples, info: DatasetInfo, subset: bool) -> Iterator[Finding]:
    """Find masks without labels, and classes without pixels, in masks that are read rightly."""
    read = [fact for fact in facts if fact.mask.labels]
    void = [fact for fact in read if set(fact.mask.labels) == {IGNORE}]
    text = f"{counted(len(void), 'mask')} without a labelled pixel"
    level: Level = "problem" if len(void) == len(read) else "note"
    yield from _about("all-void", void, text, level=level)
    if subset or len(void) == len(read):
        return
    found: dict[str, set[int]] = {fact.split: set() for fact in read}
    for fact in read:
        found[fact.split].update(fact.mask.labels)
    everywhere = set().union(*found.values())
    empty = [name for label, name in enumerate(info.classes) if label not in everywhere]
    level = "note" if any(count is not None for count in info.splits.values()) else "problem"
    text = f"{counted(len(empty), 'class', 'classes')} without pixels"
    yield from name_some("class-empty", text, empty, level=level)
    for split, labels in found.items():
        absent = [name for label, name in enumerate(info.classes) if label in everywhere - labels]
        text = f"{counted(len(absent), 'class', 'classes')} without pixels in {split}"
        yield from name_some("class-absent", text, absent, [split], level="note")


def list_values(facts: Samples, info: DatasetInfo, meanings: Mapping[int, int]) -> list[SeenValue]:
    """List the numbers, or colours if most masks have them, most frequent first."""
    some = [fact for fact in facts if fact.mask.values]
    colours = 2 * sum(fact.mask.are_colours for fact in some) > len(some)
    some = [fact for fact in some if fact.mask.are_colours == colours]
    values = _values(some)
    names = dict(enumerate(info.classes)) | {IGNORE: "void"}
    if any(fact.mask.unread for fact in some):  # a colour is no number then
        names = {}
    return [
        SeenValue(
            value=colour_of(value) if colours else value,
            means=names.get(meanings.get(value, -1), ""),
            pixels=pixels,
            share=values.share(value),
            masks=values.masks[value],
        )
        for value, pixels in values.pixels.most_common()
    ]


def _about(
    kind: str,
    facts: Samples,
    text: str,
    proposals: Iterable[Proposal] = (),
    level: Level = "problem",
) -> list[Finding]:
    """Return a finding about some images, or nothing if there are none."""
    names, splits = [fact.name for fact in facts], [fact.split for fact in facts]
    return name_some(kind, text, names, splits, level=level, proposals=proposals)


def _colour_list(values: Values, some: Mapping[int, int]) -> str:
    most = sorted(some, key=lambda code: -values.pixels[code])[:MOST_NAMED]
    named = ", ".join(f"{colour_of(code)} {100 * values.share(code):.2g} %" for code in most)
    if len(some) == len(most):
        return f"{counted(len(some), 'colour')}, {named}"
    if len(some) <= MOST_VALUES:
        return f"{counted(len(some), 'colour')}, {named}, ..."
    smooth = "So many colours come from smooth edges or compression"
    return f"more than {MOST_VALUES} colours, {named}, .... {smooth}"


def _values(facts: Samples) -> Values:
    return Values.of([fact.mask for fact in facts])


def _illegal(facts: Samples) -> Counter[int]:
    illegal: Counter[int] = Counter()
    for fact in facts:
        illegal.update(fact.mask.illegal)
    return illegal


def _same_size(fact: SampleFacts) -> bool:
    return fact.image.size is not None and fact.image.size == fact.mask.size


def _size(size: tuple[int, int] | None) -> str:
    return "?" if size is None else f"{size[1]} x {size[0]}"


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
