"""Find what is wrong with labels: numbers and colours without a class, and empty classes."""

from collections import Counter
from collections.abc import Mapping, Sequence

from reconet.data.check.colours import propose_for_colours
from reconet.data.check.facts import MaskFacts, SampleFacts
from reconet.data.check.numbers import (
    propose_background,
    propose_for_numbers,
    propose_void_class,
)
from reconet.data.check.report import EXAMPLES, Finding, Proposal, SeenValue
from reconet.data.check.values import Values, collect_values
from reconet.data.dataset import DatasetInfo
from reconet.data.labels import ranges
from reconet.data.sets.folder_masks import FolderOptions, colour_of
from reconet.system.readable import counted
from reconet.types import IGNORE, Colour

MOST_NAMED = 5  # values in one line
Samples = Sequence[SampleFacts]


def find_in_values(
    facts: Samples,
    info: DatasetInfo,
    options: FolderOptions | None,
    hints: Mapping[str, Colour],
    known: Sequence[DatasetInfo],
) -> list[Finding]:
    """Find numbers and colours in masks that no class has, with proposals if there are options."""
    findings = []
    unread = [fact for fact in facts if fact.mask is not None and fact.mask.unread_colours]
    if unread:
        findings.append(_unread_colours(unread, options, hints, known))
    unknown = [f for f in facts if f.mask is not None and f.mask.are_colours and f.mask.illegal]
    if unknown:
        findings.append(_unknown_colours(unknown))
    numbered = [f for f in facts if f.mask is not None and f.mask.values and not f.mask.are_colours]
    if any(mask.illegal for mask in _masks(numbered)):
        findings.append(_outside(numbered, info, options))
    elif options is not None and not unread:
        findings += _void_class(numbered, options)
    see_through = [fact for fact in facts if fact.mask is not None and fact.mask.see_through]
    if see_through:
        findings.append(_transparent(see_through))
    if options is not None and len(options.classes) == 1 and not findings and facts:
        findings.append(_one_class(facts, options))
    return findings


def find_empty(facts: Samples, info: DatasetInfo, subset: bool) -> list[Finding]:
    """Find masks without labels, and classes without pixels, in masks that are read rightly."""
    read = [fact for fact in facts if fact.mask is not None and fact.mask.labels]
    void = [fact for fact in read if set(fact.mask.labels) == {IGNORE}]  # type: ignore[union-attr]
    findings = []
    if void:
        everything = len(void) == len(read)
        findings.append(
            Finding(
                kind="all-void",
                level="problem" if everything else "note",
                text=f"{counted(len(void), 'mask')} without a labelled pixel",
                count=len(void),
                splits=_splits(void),
                examples=tuple(fact.name for fact in void[:EXAMPLES]),
            )
        )
    if not subset and len(void) < len(read):
        findings += _empty_classes(read, info)
    return findings


def list_values(facts: Samples, info: DatasetInfo, meanings: Mapping[int, int]) -> list[SeenValue]:
    """List the numbers, or colours, that were seen, most frequent first."""
    masks = [mask for mask in _masks(facts) if mask.values]
    colours = [mask for mask in masks if mask.are_colours]
    some = colours if 2 * len(colours) > len(masks) else [m for m in masks if not m.are_colours]
    values = collect_values(some)
    unread = any(mask.unread_colours for mask in some)  # a colour is no number then
    names = dict(enumerate(info.classes)) | {IGNORE: "void"}
    return [
        SeenValue(
            value=colour_of(value) if colours and some is colours else value,
            means="" if unread else names.get(meanings.get(value, -1), ""),
            pixels=pixels,
            share=values.share(value),
            masks=values.masks[value],
        )
        for value, pixels in values.pixels.most_common()
    ]


def _unread_colours(
    facts: Samples,
    options: FolderOptions | None,
    hints: Mapping[str, Colour],
    known: Sequence[DatasetInfo],
) -> Finding:
    values = collect_values(_masks(facts))
    many = "more than " if values.incomplete else ""
    text = (
        f"{counted(len(facts), 'mask holds', 'masks hold')} colours, not class numbers: "
        f"{many}{counted(len(values.pixels), 'colour')}, {_colour_list(values, values.pixels)}"
    )
    if values.incomplete:
        text += ". So many colours come from smooth edges or compression"
    proposals = () if options is None else propose_for_colours(values, options, hints, known)
    return _finding("colours-unread", facts, text, proposals)


def _unknown_colours(facts: Samples) -> Finding:
    values = collect_values(_masks(facts))
    illegal: Counter[int] = Counter()
    for mask in _masks(facts):
        illegal.update(mask.illegal)
    text = (
        f"{counted(len(facts), 'mask holds', 'masks hold')} colours that data.options.colours "
        f"does not have: {_colour_list(values, illegal)}"
    )
    if len(illegal) > MOST_NAMED:
        text += ". So many colours come from smooth edges or compression"
    return _finding("colours-unknown", facts, text)


def _outside(facts: Samples, info: DatasetInfo, options: FolderOptions | None) -> Finding:
    wrong = [fact for fact in facts if fact.mask is not None and fact.mask.illegal]
    values = collect_values(_masks(facts))
    illegal: Counter[int] = Counter()
    for mask in _masks(wrong):
        illegal.update(mask.illegal)
    named = [
        f"{value} ({100 * values.share(value):.2g} % of the pixels, in "
        f"{counted(values.masks[value], 'mask')})"
        for value, _ in illegal.most_common(MOST_NAMED)
    ]
    more = f" and {counted(len(illegal) - len(named), 'other value')}" * (len(illegal) > len(named))
    text = (
        f"{counted(len(wrong), 'mask holds', 'masks hold')} labels that no class has: "
        f"{', '.join(named)}{more}. There {_are(len(info.classes))}: "
        f"{ranges(list(range(len(info.classes))))}"
    )
    proposals = propose_for_numbers(values, illegal, options) if options is not None else ()
    following = len(info.classes)
    asked = set(illegal) == {following} and not values.is_stray(following)
    if asked and "label_map" not in {p.option for p in proposals}:
        text += ". Is a class name missing? Or is 0 void, and 1 the first class"
    return _finding("label-outside", wrong, text, proposals)


def _void_class(facts: Samples, options: FolderOptions) -> list[Finding]:
    values = collect_values(_masks(facts))
    proposal = propose_void_class(values, options)
    if proposal is None:
        return []
    high = max(values.pixels)
    text = (
        f"{high} in the masks means void ({100 * values.share(high):.2g} % of the pixels), and "
        f"{options.classes[-1]} has no pixel"
    )
    return [_finding("label-void", facts, text, (proposal,))]


def _one_class(facts: Samples, options: FolderOptions) -> Finding:
    """Report that there is nothing to tell apart."""
    numbered = [mask for mask in _masks(facts) if mask.values and not mask.are_colours]
    proposal = propose_background(collect_values(numbered), options) if numbered else None
    text = (
        f"there is one class, {options.classes[0]}, so that every prediction is right. What is "
        "not of this class needs a class too, such as background"
    )
    return Finding(kind="one-class", text=text, proposals=(proposal,) if proposal else ())


def _transparent(facts: Samples) -> Finding:
    text = (
        f"{counted(len(facts), 'mask has', 'masks have')} a colour that is both opaque and "
        "transparent. Transparency is not read, so that both are one. Save masks without it"
    )
    return _finding("transparent", facts, text)


def _empty_classes(read: Samples, info: DatasetInfo) -> list[Finding]:
    found: dict[str, set[int]] = {split: set() for split in _splits(read)}
    for fact in read:
        found[fact.split].update(fact.mask.labels)  # type: ignore[union-attr]
    everywhere = set().union(*found.values())
    empty = [name for label, name in enumerate(info.classes) if label not in everywhere]
    official = any(count is not None for count in info.splits.values())
    findings = []
    if empty:
        findings.append(
            Finding(
                kind="class-empty",
                level="note" if official else "problem",
                text=f"{counted(len(empty), 'class', 'classes')} without pixels",
                count=len(empty),
                examples=tuple(empty[:EXAMPLES]),
            )
        )
    for split, labels in found.items():
        absent = [
            name
            for label, name in enumerate(info.classes)
            if label not in labels and label in everywhere
        ]
        if absent:
            findings.append(
                Finding(
                    kind="class-absent",
                    level="note",
                    text=f"{counted(len(absent), 'class', 'classes')} without pixels in {split}",
                    count=len(absent),
                    splits=(split,),
                    examples=tuple(absent[:EXAMPLES]),
                )
            )
    return findings


def _colour_list(values: Values, some: Mapping[int, int]) -> str:
    most = sorted(some, key=lambda code: -values.pixels[code])[:MOST_NAMED]
    named = [f"{colour_of(code)} {100 * values.share(code):.2g} %" for code in most]
    return ", ".join(named) + (", ..." if len(some) > len(most) else "")


def _are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {counted(count, 'class', 'classes')}"


def _masks(facts: Samples) -> list[MaskFacts]:
    return [fact.mask for fact in facts if fact.mask is not None]


def _splits(facts: Samples) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fact.split for fact in facts))


def _finding(kind: str, facts: Samples, text: str, proposals: tuple[Proposal, ...] = ()) -> Finding:
    return Finding(
        kind=kind,
        text=text,
        count=len(facts),
        splits=_splits(facts),
        examples=tuple(fact.name for fact in facts[:EXAMPLES]),
        proposals=proposals,
    )
