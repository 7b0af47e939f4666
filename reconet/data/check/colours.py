"""Propose which class each colour in RGB masks means.

A colour is given to a class only where something tells it: a known palette, the file of another
program, or grey values that are numbers. Otherwise the proposal lists the colours, and a person has
to put in the names.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from reconet.data.check.numbers import (
    BACKGROUND,
    find_label_map,
    propose_background,
    propose_void_class,
)
from reconet.data.check.report import Proposal
from reconet.data.check.values import Values
from reconet.data.classes import colour_map
from reconet.data.dataset import DatasetInfo
from reconet.data.images.draw import VOID_COLOUR
from reconet.data.sets.folder_masks import FolderOptions, colour_of
from reconet.types import IGNORE, Colour

MOST_COLOURS = 40  # beyond these a list helps nobody
BLACK: Colour = (0, 0, 0)


def propose_for_colours(
    values: Values,
    options: FolderOptions,
    hints: Mapping[str, Colour],
    known: Sequence[DatasetInfo],
) -> tuple[Proposal, ...]:
    """Propose the option `colours` for masks of which it is not set."""
    seen = {colour_of(code) for code in values.pixels}
    told = _by_hints(seen, options, hints) or _by_known_palette(seen, options, known)
    proposals = (told,) if told else (*_by_grey(values, options), *_by_voc(seen, options))[:2]
    if not proposals and len(seen) <= MOST_COLOURS and not values.incomplete:
        proposals = (_unfinished(values),)
    if options.label_map is None:
        return proposals
    # It is about numbers, and would be refused beside colours.
    return tuple(replace(one, also={**one.also, "label_map": None}) for one in proposals)


def _unfinished(values: Values) -> Proposal:
    """List the colours, and leave the names to a person."""
    listed = ", ".join(
        f'"NAME": {list(colour_of(code))}' for code, _ in values.pixels.most_common()
    )
    return Proposal(
        condition='put a class, or "ignore", for each NAME; several colours of one name are a '
        "list of lists",
        option="colours",
        value=f"{{{listed}}}",
        unfinished=True,
    )


def _proposal(condition: str, colours: Mapping[str, Colour]) -> Proposal:
    values = {name: list(colour) for name, colour in colours.items()}
    return Proposal(condition=condition, option="colours", value=values)


def _by_hints(
    seen: set[Colour], options: FolderOptions, hints: Mapping[str, Colour]
) -> Proposal | None:
    colours = {name: hints[name] for name in (*options.classes, "ignore") if name in hints}
    if set(options.classes) <= colours.keys() and seen <= set(colours.values()):
        return _proposal("as labelmap.txt says", colours)
    return None


def _by_known_palette(
    seen: set[Colour], options: FolderOptions, known: Sequence[DatasetInfo]
) -> Proposal | None:
    """Use the colours of a public dataset, if it has all names and all colours."""
    for info in known:
        palette = dict(zip(info.classes, info.palette, strict=True))
        if not options.classes or not set(options.classes) <= palette.keys():
            continue
        colours = {name: palette[name] for name in options.classes}
        rest = seen - set(colours.values())
        if rest <= {BLACK} and len(seen - rest) >= 2:
            void = dict.fromkeys(["ignore"] if rest else [], BLACK)
            return _proposal(f"if the colours are those of {info.title}", colours | void)
    return None


def _by_grey(values: Values, options: FolderOptions) -> Iterator[Proposal]:
    """Read red = green = blue as a number."""
    if any(len(set(colour_of(code))) > 1 for code in values.pixels):
        return
    grey = Values(
        pixels=Counter({code & 255: n for code, n in values.pixels.items()}),
        masks=Counter({code & 255: n for code, n in values.masks.items()}),
        count=values.count,
        incomplete=values.incomplete,
    )
    for one in _grey_meanings(grey, options):
        name_of = dict(enumerate(one.classes)) | {IGNORE: "ignore"}
        colours: dict[str, list[list[int]]] = {}
        for number, label in one.label_map.items():
            colours.setdefault(name_of[label], []).append([number] * 3)
        value = {name: some[0] if len(some) == 1 else some for name, some in colours.items()}
        if one.classes == options.classes:
            yield Proposal(condition=one.condition, option="colours", value=value)
        else:
            yield Proposal(
                condition=one.condition,
                option="classes",
                value=one.classes,
                also={"colours": value},
            )


class GreyMeaning(NamedTuple):
    """What grey values may mean."""

    condition: str
    label_map: Mapping[int, int]
    classes: tuple[str, ...]


def _grey_meanings(grey: Values, options: FolderOptions) -> Iterator[GreyMeaning]:
    """List what grey values may mean as numbers, most likely first."""
    names, void = options.classes, dict.fromkeys(options.ignored, IGNORE)
    if options.label_map is not None:
        known = {number: options.label_of(to) for number, to in options.label_map.items()} | void
        if set(grey.pixels) <= known.keys():
            yield GreyMeaning("if label_map is about the grey values", known, names)
        return
    if len(names) == 1:
        yield from _beside_background(grey, options)
        return
    label_map = find_label_map(grey, options)
    in_order = {number: number for number in range(len(names))} | void
    if label_map is None and set(grey.pixels) <= in_order.keys():
        label_map = in_order
    if label_map is None:
        return
    as_class = propose_void_class(grey, options)
    other = _numbers(as_class.value) if as_class is not None else label_map
    if as_class is not None and other != label_map:
        yield GreyMeaning(f"{as_class.condition}, as grey", other, names)
    last = max(number for number, label in label_map.items() if label != IGNORE)
    condition = f"if grey values are class numbers, up to {last} for {names[-1]}"
    yield GreyMeaning(condition, label_map, names)


def _beside_background(grey: Values, options: FolderOptions) -> Iterator[GreyMeaning]:
    """Read grey values as background and the only class."""
    asked = propose_background(grey, options)
    label_map = {} if asked is None else _numbers(asked.also.get("label_map", {"0": 0, "1": 1}))
    if asked is not None and label_map:
        void = {number: IGNORE for number in options.ignored if number not in label_map}
        names = (BACKGROUND, *options.classes)
        yield GreyMeaning(f"{asked.condition}, as grey", label_map | void, names)


def _numbers(label_map: object) -> dict[int, int]:
    """Return a proposed label map by numbers, or nothing if it has ranges, as no colour has."""
    if not isinstance(label_map, dict) or not all(map(str.isdecimal, label_map)):
        return {}
    return {int(number): label for number, label in label_map.items()}


def _by_voc(seen: set[Colour], options: FolderOptions) -> Iterator[Proposal]:
    """Read the colours by which many programs number classes."""
    count = len(options.classes)
    palette = colour_map(count + 1)
    rest = seen - {VOID_COLOUR}
    if len(rest - {BLACK}) < 2:  # a single colour may be anybody's
        return
    void: dict[str, Colour] = {"ignore": VOID_COLOUR} if VOID_COLOUR in seen else {}
    if rest <= set(palette[:count]):
        colours = dict(zip(options.classes, palette[:count], strict=True))
        yield _proposal(
            "if the colours are numbered as in PASCAL VOC, from black on", colours | void
        )
    elif not void and rest <= set(palette) and palette[count] in rest:
        colours = {"ignore": BLACK} | dict(zip(options.classes, palette[1:], strict=True))
        yield _proposal("if the colours are numbered as in PASCAL VOC, and black is void", colours)
