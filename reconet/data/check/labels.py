"""Find what is wrong with labels: numbers and colours without a class, and empty classes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from reconet.data.check.facts import SampleFacts
from reconet.data.check.proposals import (
    Values,
    collect_values,
    propose_background,
    propose_for_colours,
    propose_for_numbers,
    propose_label_map,
)
from reconet.data.check.report import Finding, Level, SeenValue, find_about, name_some
from reconet.data.dataset import DatasetInfo
from reconet.data.labels import ranges
from reconet.data.sets.folder_masks import FolderOptions, colour_of
from reconet.system.readable import counted
from reconet.types import IGNORE, Colour

MOST_NAMED = 5  # values in one line
SO_MANY = ". So many colours come from smooth edges or compression"
Samples = Sequence[SampleFacts]


def find_in_values(
    facts: Samples,
    info: DatasetInfo,
    options: FolderOptions | None,
    label_map_file: Mapping[str, Colour],
) -> list[Finding]:
    """Find numbers and colours in masks that no class has, with proposals if there are options."""
    unread = [fact for fact in facts if fact.mask.unread]
    findings = _unread_colours(unread, options, label_map_file)
    findings += _unknown_colours([f for f in facts if f.mask.are_colours and f.mask.illegal])
    numbered = [fact for fact in facts if fact.mask.values and not fact.mask.are_colours]
    if any(fact.mask.illegal for fact in numbered):
        findings += _outside(numbered, info, options)
    if options is None or findings:
        return findings
    values = _collect(numbered)
    if len(options.classes) == 1 and facts:
        findings.append(_one_class(values, options))
    elif numbered and options.label_map is None:
        findings += _void_class(numbered, values, options)
    return findings


def find_empty(facts: Samples, info: DatasetInfo, subset: bool) -> Iterator[Finding]:
    """Find masks without labels, and classes without pixels, in masks that are read rightly."""
    read = [fact for fact in facts if fact.mask.labels]
    void = [fact for fact in read if set(fact.mask.labels) == {IGNORE}]
    text = f"{counted(len(void), 'mask')} without a labelled pixel"
    level: Level = "problem" if len(void) == len(read) else "note"
    yield from find_about("all-void", void, text, level=level)
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
    masks = [fact.mask for fact in facts if fact.mask.values]
    colours = 2 * sum(mask.are_colours for mask in masks) > len(masks)
    some = [mask for mask in masks if mask.are_colours == colours]
    values = collect_values(some)
    unread = any(mask.unread for mask in some)  # a colour is no number then
    names = dict(enumerate(info.classes)) | {IGNORE: "void"}
    return [
        SeenValue(
            value=colour_of(value) if colours else value,
            means="" if unread else names.get(meanings.get(value, -1), ""),
            pixels=pixels,
            share=values.share(value),
            masks=values.masks[value],
        )
        for value, pixels in values.pixels.most_common()
    ]


def _unread_colours(
    facts: Samples, options: FolderOptions | None, label_map_file: Mapping[str, Colour]
) -> list[Finding]:
    values = _collect(facts)
    many = "more than " if values.incomplete else ""
    text = (
        f"{counted(len(facts), 'mask holds', 'masks hold')} colours, not class numbers: "
        f"{many}{counted(len(values.pixels), 'colour')}, {_colour_list(values, values.pixels)}"
    )
    text += SO_MANY if values.incomplete else ""
    proposals = () if options is None else propose_for_colours(values, options, label_map_file)
    return find_about("colours-unread", facts, text, proposals)


def _unknown_colours(facts: Samples) -> list[Finding]:
    illegal = _illegal(facts)
    text = (
        f"{counted(len(facts), 'mask holds', 'masks hold')} colours that data.options.colours "
        f"does not have: {_colour_list(_collect(facts), illegal)}"
    )
    return find_about("colours-unknown", facts, text + SO_MANY * (len(illegal) > MOST_NAMED))


def _outside(facts: Samples, info: DatasetInfo, options: FolderOptions | None) -> list[Finding]:
    wrong = [fact for fact in facts if fact.mask.illegal]
    values, illegal = _collect(facts), _illegal(wrong)
    named = [
        f"{value} ({100 * values.share(value):.2g} % of the pixels, in "
        f"{counted(values.masks[value], 'mask')})"
        for value, _ in illegal.most_common(MOST_NAMED)
    ]
    more = f" and {counted(len(illegal) - len(named), 'other value')}" * (len(illegal) > len(named))
    count = len(info.classes)
    text = (
        f"{counted(len(wrong), 'mask holds', 'masks hold')} labels that no class has: "
        f"{', '.join(named)}{more}. There {'is' if count == 1 else 'are'} "
        f"{counted(count, 'class', 'classes')}: {ranges(list(range(count)))}"
    )
    proposals = () if options is None else propose_for_numbers(values, illegal, options)
    return find_about("label-outside", wrong, text, proposals)


def _void_class(facts: Samples, values: Values, options: FolderOptions) -> Iterator[Finding]:
    """Find masks of 0 and 255 of two classes, of which 255 is read as void."""
    proposal = propose_label_map(values, options)
    if proposal is not None:
        high = max(values.pixels)
        text = (
            f"{high} in the masks means void ({100 * values.share(high):.2g} % of the pixels), "
            f"and {options.classes[-1]} has no pixel"
        )
        yield from find_about("label-void", facts, text, (proposal,))


def _one_class(values: Values, options: FolderOptions) -> Finding:
    """Report that there is nothing to tell apart."""
    proposal = propose_background(values, options) if values.pixels else None
    text = (
        f"there is one class, {options.classes[0]}, so that every prediction is right. What is "
        "not of this class needs a class too, such as background"
    )
    return Finding(kind="one-class", text=text, proposals=(proposal,) if proposal else ())


def _colour_list(values: Values, some: Mapping[int, int]) -> str:
    most = sorted(some, key=lambda code: -values.pixels[code])[:MOST_NAMED]
    named = [f"{colour_of(code)} {100 * values.share(code):.2g} %" for code in most]
    return ", ".join(named) + (", ..." if len(some) > len(most) else "")


def _collect(facts: Samples) -> Values:
    return collect_values([fact.mask for fact in facts])


def _illegal(facts: Samples) -> Counter[int]:
    illegal: Counter[int] = Counter()
    for fact in facts:
        illegal.update(fact.mask.illegal)
    return illegal
