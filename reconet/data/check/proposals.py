"""Propose what the numbers or colours in masks may mean, where they do not fit the classes.

Nothing is guessed: one list has the tables that masks usually follow, another the known palettes.
A proposal says under which condition it is right, and a person decides.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from reconet.data.check.facts import MaskFacts
from reconet.data.check.report import Proposal
from reconet.data.classes import colour_map
from reconet.data.formats import masks
from reconet.data.images.draw import VOID_COLOUR
from reconet.data.registry import DATASETS
from reconet.data.sets.folder_masks import FolderOptions, colour_of
from reconet.types import IGNORE, Colour

FEW_MASKS, FEW_PIXELS = 0.05, 0.005
MOST_VOID = 3  # numbers that may all mean void
MOST_COLOURS = 40  # beyond these a list helps nobody
NEARLY_ALL = 0.9
BACKGROUND = "background"
BLACK: Colour = (0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Values:
    """The numbers or colours in a set of masks."""

    pixels: Counter[int]
    masks: Counter[int]  # in how many masks each of them is
    count: int  # of masks
    incomplete: bool  # some masks have more values than could be kept

    def share(self, value: int) -> float:
        """Return the part of all pixels that has a value."""
        return self.pixels[value] / max(1, self.pixels.total())

    def is_stray(self, value: int) -> bool:
        """Return whether a value is in hardly any mask, in hardly any pixel."""
        return self.masks[value] <= max(1, FEW_MASKS * self.count) and (
            self.share(value) < FEW_PIXELS
        )


def collect_values(masks: Sequence[MaskFacts]) -> Values:
    """Add up the values of masks that could be read."""
    pixels: Counter[int] = Counter()
    holders: Counter[int] = Counter()
    for mask in masks:
        pixels.update(mask.values)
        holders.update(mask.values.keys())
    incomplete = any(mask.incomplete for mask in masks)
    return Values(pixels=pixels, masks=holders, count=len(masks), incomplete=incomplete)


def propose_for_numbers(
    values: Values, illegal: Collection[int], options: FolderOptions
) -> tuple[Proposal, ...]:
    """Propose settings for numbers of which some are illegal."""
    if options.label_map is not None:
        return tuple(_more_void(illegal, options))
    whole = propose_background(values, options) or propose_label_map(values, options)
    if whole is not None:
        return (whole,)
    count = len(options.classes)
    moved = {0: IGNORE} | _from_one(count)
    labelled = set(values.pixels) - set(options.ignored)
    names = _missing_names(values, illegal, options)
    proposals = (*names, *_more_void(illegal, options))
    if labelled == moved.keys() and not values.is_stray(count):
        proposals += (_label_map_proposal(moved | _void(options), options),)
    return proposals


def propose_background(values: Values, options: FolderOptions) -> Proposal | None:
    """Propose a class for all that is not the only class, if the numbers then have a meaning."""
    if len(options.classes) != 1 or options.label_map is not None or options.colours is not None:
        return None
    names = (BACKGROUND, *options.classes)
    if set(values.pixels) - set(options.ignored) == {0, 1}:
        condition = f"if 0 is {BACKGROUND} and 1 is {names[1]}"
        return Proposal(condition=condition, option="classes", value=names)
    mended = propose_label_map(values, options.model_copy(update={"classes": names}))
    if mended is None:
        return None
    also = {mended.option: mended.value}
    return Proposal(condition=mended.condition, option="classes", value=names, also=also)


def propose_label_map(values: Values, options: FolderOptions) -> Proposal | None:
    """Propose a label map if the numbers follow a usual table, else None."""
    label_map = find_label_map(values, options)
    if label_map is not None:
        return _label_map_proposal(label_map, options)
    one = masks.Values(values.pixels, False, "")
    if len(options.classes) != 2 or options.ignore_is_given or one.kind != "two":
        return None
    first, second = options.classes
    dark, bright = masks.DARK, masks.BRIGHT
    return Proposal(
        condition=f"if dark is {first}, bright is {second}, and grey edges are void",
        option="label_map",
        value={f"0-{dark - 1}": 0, f"{dark}-{bright - 1}": "ignore", f"{bright}-255": 1},
    )


def find_label_map(values: Values, options: FolderOptions) -> dict[int, int] | None:
    """Return the usual table that the numbers in masks follow, or None.

    A number that is void by default may be a class. One that a person called void is not.
    """
    seen = set(values.pixels)
    labelled = seen - set(options.ignored)
    for numbers in (labelled,) if options.ignore_is_given else (labelled, seen):
        if not numbers or values.is_stray(max(numbers)):
            continue
        for table in _usual_tables(options.classes):
            if _follows(numbers, table):
                return table | {n: m for n, m in _void(options).items() if n not in numbers}
    return None


def _usual_tables(classes: Sequence[str]) -> Iterator[dict[int, int]]:
    """List what the numbers in masks mean where they are not 0, 1, 2 and so on."""
    count = len(classes)
    if count > 1:
        for step in range(2, 255 // (count - 1) + 1):  # 0, 50, 100
            yield {step * label: label for label in range(count)}
        for extra in (0.0, 0.5):  # 0, 127, 255 and 0, 128, 255
            yield {int(255 * label / (count - 1) + extra): label for label in range(count)}
    for step in range(1, 255 // count + 1):  # 1, 2, 3
        yield _from_one(count, step)
    trimap = _from_one(count)  # the object, the rest, and void between them
    if count == 2 and classes[0].lower() == BACKGROUND:
        trimap = {1: 1, 2: 0}
    yield trimap | {count + 1: IGNORE}


def _follows(numbers: set[int], table: Mapping[int, int]) -> bool:
    """Return whether numbers are those of a table: the last must be there, and nearly all others.

    Where no number but 0 is a class now, their step is enough.
    """
    count, enough = len(table), NEARLY_ALL * len(table)
    if not numbers <= table.keys() or max(table) not in numbers:
        return False
    if 0 in table:
        step = max(table) // (count - 1)
        if 0 in numbers and gcd(*numbers) == step >= count:
            return True
        enough = max(4, enough) if step < count else enough
    return len(numbers) >= (count if IGNORE in table.values() else enough)


def _from_one(count: int, step: int = 1) -> dict[int, int]:
    return {step * (label + 1): label for label in range(count)}


def _void(options: FolderOptions) -> dict[int, int]:
    return dict.fromkeys(options.ignored, IGNORE)


def _missing_names(
    values: Values, illegal: Collection[int], options: FolderOptions
) -> Iterator[Proposal]:
    """Propose names for the next numbers, if all of them are there and none is stray."""
    count = len(options.classes)
    legal = [number for number in values.pixels if number < count]
    if set(illegal) != set(range(count, max(illegal) + 1)) or 2 * len(legal) < count:
        return
    if not any(values.is_stray(number) for number in illegal):
        names = [*options.classes, *(f"class {number}" for number in sorted(illegal))]
        which = ", ".join(map(str, sorted(illegal)))
        what = "is a class whose name is" if len(illegal) == 1 else "are classes whose names are"
        yield Proposal(condition=f"if {which} {what} missing", option="classes", value=names)


def _more_void(illegal: Collection[int], options: FolderOptions) -> Iterator[Proposal]:
    if len(illegal) > MOST_VOID or not all(0 <= number <= 255 for number in illegal):
        return
    more = sorted(illegal)
    condition = f"if {', '.join(map(str, more))} {'means' if len(more) == 1 else 'mean'} void"
    if options.label_map is None:
        yield Proposal(condition=condition, option="ignore", value=[*options.ignored, *more])
    else:
        known = {str(number): meaning for number, meaning in options.label_map.items()}
        value = known | {str(number): "ignore" for number in more}
        yield Proposal(condition=condition, option="label_map", value=value)


def _label_map_proposal(label_map: Mapping[int, int], options: FolderOptions) -> Proposal:
    number_of = {label: number for number, label in label_map.items()}
    ends = {0: options.classes[0], len(options.classes) - 1: options.classes[-1]}
    means = [f"{number_of[label]} means {name}" for label, name in ends.items()]
    void = [n for n, label in label_map.items() if label == IGNORE and n not in options.ignored]
    means += [f"{number} is void" for number in void]
    return Proposal(
        condition=f"if {' and '.join(means)}",
        option="label_map",
        value={str(number): label for number, label in label_map.items()},
    )


def propose_for_colours(
    values: Values, options: FolderOptions, label_map_file: Mapping[str, Colour]
) -> tuple[Proposal, ...]:
    """Propose the option `colours` for masks of which it is not set."""
    proposal = _by_grey(values, options) or _by_palette(values, options, label_map_file)
    if proposal is None and len(values.pixels) <= MOST_COLOURS and not values.incomplete:
        proposal = _unfinished(values)
    if proposal is None:
        return ()
    if options.label_map is not None:  # it is about numbers, and would be refused beside colours
        proposal = replace(proposal, also={**proposal.also, "label_map": None})
    return (proposal,)


def _by_palette(
    values: Values, options: FolderOptions, label_map_file: Mapping[str, Colour]
) -> Proposal | None:
    """Use the first known palette that has all names and all colours."""
    seen = {colour_of(code) for code in values.pixels}
    for condition, palette in _palettes(options.classes, label_map_file):
        colours = {name: palette[name] for name in options.classes if name in palette}
        if "ignore" in palette and palette["ignore"] in seen - set(colours.values()):
            colours["ignore"] = palette["ignore"]
        named = palette is label_map_file or len(seen - {BLACK, VOID_COLOUR}) > 1
        if named and colours.keys() >= set(options.classes) and seen <= set(colours.values()):
            value = {name: list(colour) for name, colour in colours.items()}
            return Proposal(condition=condition, option="colours", value=value)
    return None


def _palettes(
    classes: Sequence[str], label_map_file: Mapping[str, Colour]
) -> Iterator[tuple[str, Mapping[str, Colour]]]:
    yield "as labelmap.txt says", label_map_file
    for entry in DATASETS.values():
        public = dict(zip(entry.info.classes, entry.info.palette, strict=True))
        yield f"if the colours are those of {entry.info.title}", public | {"ignore": BLACK}
    for first, void in ((0, VOID_COLOUR), (1, BLACK)):
        voc = dict(zip(classes, colour_map(len(classes), first), strict=True))
        which = "from black on" if first == 0 else "and black is void"
        condition = f"if the colours are numbered as in PASCAL VOC, {which}"
        yield condition, voc | {"ignore": void}


def _by_grey(values: Values, options: FolderOptions) -> Proposal | None:
    """Read red = green = blue as a number."""
    if any(len(set(colour_of(code))) > 1 for code in values.pixels):
        return None
    grey = replace(
        values,
        pixels=Counter({code & 255: n for code, n in values.pixels.items()}),
        masks=Counter({code & 255: n for code, n in values.masks.items()}),
    )
    names = options.classes if len(options.classes) > 1 else (BACKGROUND, *options.classes)
    two = options.model_copy(update={"classes": names})
    if options.label_map is not None:
        told = {number: options.label_of(to) for number, to in options.label_map.items()}
        label_map, condition = told | _void(options), "if label_map is about the grey values"
    else:
        in_order = {label: label for label in range(len(names))} | _void(options)
        label_map = find_label_map(grey, two) or in_order
        last = max(number for number, label in label_map.items() if label != IGNORE)
        condition = f"if grey values are class numbers, up to {last} for {names[-1]}"
    if not grey.pixels.keys() <= label_map.keys():
        return None
    name_of = dict(enumerate(names)) | {IGNORE: "ignore"}
    colours: dict[str, list[list[int]]] = {}
    for number, label in label_map.items():
        colours.setdefault(name_of[label], []).append([number] * 3)
    value = {name: some[0] if len(some) == 1 else some for name, some in colours.items()}
    if names == options.classes:
        return Proposal(condition=condition, option="colours", value=value)
    return Proposal(condition=condition, option="classes", value=names, also={"colours": value})


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
