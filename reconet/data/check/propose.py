"""Propose what the numbers or colours in masks may mean, where they do not fit the classes.

A proposal says under which condition it is right, and a person decides.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from reconet.data.check.gather import Values
from reconet.data.check.report import Proposal
from reconet.data.classes import BACKGROUND, colour_map
from reconet.data.formats import black_and_white
from reconet.data.images.draw import VOID_COLOUR
from reconet.data.sets.folder_masks import FolderOptions, colour_of
from reconet.types import IGNORE, Colour

FEW_MASKS, FEW_PIXELS = 0.05, 0.005
MOST_VOID = 3  # numbers that may all mean void
MOST_COLOURS = 40  # beyond these a list helps nobody
Table = dict[int, int]  # number in a mask -> label


def propose_for_numbers(
    values: Values, illegal: Collection[int], options: FolderOptions
) -> list[Proposal]:
    """Propose settings for numbers of which some are illegal."""
    more, count = sorted(illegal), len(options.classes)
    which = ", ".join(map(str, more))
    void = f"if {which} {'means' if len(more) == 1 else 'mean'} void"
    few = len(more) <= MOST_VOID and max(more) <= 255 and min(more) >= 0
    if options.label_map is not None:
        told = {str(number): meaning for number, meaning in options.label_map.items()}
        told |= {str(number): "ignore" for number in more}
        return [Proposal(void, {"label_map": told})] if few else []
    table = propose_table(values, options)
    if table is not None:
        return [table]
    found = []
    legal = [number for number in values.pixels if number < count]
    in_a_row = more == list(range(count, more[-1] + 1)) and 2 * len(legal) >= count
    if in_a_row and not any(_is_stray(values, number) for number in more):
        names = [*options.classes, *(f"class {number}" for number in more)]
        what = "is a class whose name is" if len(more) == 1 else "are classes whose names are"
        found.append(Proposal(f"if {which} {what} missing", {"classes": names}))
    if few:
        found.append(Proposal(void, {"ignore": [*options.ignored, *more]}))
    moved = {0: IGNORE} | {label + 1: label for label in range(count)}
    if values.pixels.keys() - {*options.ignored} == moved.keys() and not _is_stray(values, count):
        found.append(_of_table(moved | _void(options), options.classes, options))
    return found


def propose_table(values: Values, options: FolderOptions) -> Proposal | None:
    """Propose what numbers mean that are a usual table of as many classes, else None.

    Where there is only one class, what is not of this class is the background.
    """
    one = len(options.classes) == 1
    classes = (BACKGROUND, *options.classes) if one else options.classes
    table = find_table(values, classes, options)
    if table is not None:
        return _of_table(table, classes, options)
    smooth = black_and_white(values.pixels)
    if smooth is None or len(classes) != 2 or options.ignore_is_given:
        return None
    means = dict(zip(("background", "foreground"), classes, strict=True))
    label_map = {numbers: means.get(name, name) for numbers, name in smooth.items()}
    condition = f"if dark is {classes[0]}, bright is {classes[1]}, and grey edges are void"
    return Proposal(condition, _with(classes, options, label_map=label_map))


def find_table(values: Values, classes: Sequence[str], options: FolderOptions) -> Table | None:
    """Return what the numbers in masks usually mean if they are not 0, 1, 2 and so on.

    They are as many as the classes, in equal steps: 0, 50, 100, or 0, 127, 255, or 1, 2, 3. A
    number that is void by default may be a class. One that a person called void is not.
    """
    count, seen = len(classes), sorted(values.pixels)
    labelled = [number for number in seen if number not in options.ignored]
    for numbers in (labelled,) if options.ignore_is_given else (labelled, seen):
        if len(numbers) == count > 1 and not _is_stray(values, numbers[-1]):
            low, high = numbers[0], numbers[-1]
            step = (high - low) / (count - 1)
            ends = low in (0, step) and (step % 1 == 0 or high == 255)
            even = [[int(low + step * k + extra) for k in range(count)] for extra in (0.0, 0.5)]
            new = step > 1 or low > 0 or count != len(options.classes)
            if ends and numbers in even and new:
                void = {n: to for n, to in _void(options).items() if n not in numbers}
                return {number: label for label, number in enumerate(numbers)} | void
    if labelled == list(range(1, count + 2)):  # as in trimaps, where the object comes first
        in_order = range(count)[:: -1 if count == 2 and classes[0].lower() == BACKGROUND else 1]
        return dict(enumerate([*in_order, IGNORE], 1)) | _void(options)
    return None


def _is_stray(values: Values, value: int) -> bool:
    """Return whether a value is in hardly any mask, in hardly any pixel."""
    few = values.masks[value] <= max(1, FEW_MASKS * values.total)
    return few and values.share(value) < FEW_PIXELS


def _void(options: FolderOptions) -> Table:
    return dict.fromkeys(options.ignored, IGNORE)


def _with(classes: Sequence[str], options: FolderOptions, **more: object) -> dict[str, object]:
    """Return options to set. Classes are among them if they are others than now."""
    return more if len(classes) == len(options.classes) else {"classes": classes, **more}


def _of_table(table: Table, classes: Sequence[str], options: FolderOptions) -> Proposal:
    number_of = {label: number for number, label in table.items()}
    ends = {0: classes[0], len(classes) - 1: classes[-1]}
    means = [f"{number_of[label]} means {name}" for label, name in ends.items()]
    void = [n for n, label in table.items() if label == IGNORE and n not in options.ignored]
    condition = f"if {' and '.join([*means, *(f'{number} is void' for number in void)])}"
    if table.items() <= ({label: label for label in range(len(classes))} | _void(options)).items():
        return Proposal(condition, {"classes": classes})
    label_map = {str(number): label for number, label in table.items()}
    return Proposal(condition, _with(classes, options, label_map=label_map))


def propose_for_colours(
    values: Values, options: FolderOptions, label_map_file: Mapping[str, Colour]
) -> list[Proposal]:
    """Propose the option `colours` for masks of which it is not set."""
    proposal = _by_grey(values, options) or _by_palette(values, options, label_map_file)
    if proposal is None and len(values.pixels) <= MOST_COLOURS:
        listed = enumerate(values.pixels.most_common(), 1)
        proposal = Proposal(
            'put a class, or "ignore", for each NAME; several colours of one name are a list of '
            "lists",
            {"colours": {f"NAME {number}": colour_of(code) for number, (code, _) in listed}},
            unfinished=True,
        )
    if proposal is None:
        return []
    if options.label_map is None:
        return [proposal]
    # It is about numbers, and would be refused beside colours.
    return [Proposal(proposal.condition, {**proposal.options, "label_map": None})]


def _by_palette(
    values: Values, options: FolderOptions, label_map_file: Mapping[str, Colour]
) -> Proposal | None:
    """Use labelmap.txt or the colours of PASCAL VOC, if they have all names and all colours."""
    seen = {colour_of(code) for code in values.pixels}
    voc = dict(zip(options.classes, colour_map(len(options.classes)), strict=True))
    voc["ignore"] = VOID_COLOUR
    numbered = "if the colours are numbered as in PASCAL VOC, from black on"
    for condition, palette in (("as labelmap.txt says", label_map_file), (numbered, voc)):
        colours = {name: palette[name] for name in options.classes if name in palette}
        if palette.get("ignore") in seen - set(colours.values()):
            colours["ignore"] = palette["ignore"]
        if colours.keys() >= set(options.classes) and seen <= set(colours.values()):
            return Proposal(condition, {"colours": colours})
    return None


def _by_grey(values: Values, options: FolderOptions) -> Proposal | None:
    """Read red = green = blue as a number."""
    if any(code % 0x010101 for code in values.pixels):
        return None
    grey = values._replace(
        pixels=Counter({code & 255: n for code, n in values.pixels.items()}),
        masks=Counter({code & 255: n for code, n in values.masks.items()}),
    )
    one = len(options.classes) == 1
    names = (BACKGROUND, *options.classes) if one else options.classes
    if options.label_map is not None:
        told = {number: options.label_of(to) for number, to in options.label_map.items()}
        table, condition = told | _void(options), "if label_map is about the grey values"
    else:
        in_order = {label: label for label in range(len(names))} | _void(options)
        table = find_table(grey, names, options) or in_order
        last = max(number for number, label in table.items() if label != IGNORE)
        condition = f"if grey values are class numbers, up to {last} for {names[-1]}"
    if not grey.pixels.keys() <= table.keys():
        return None
    colours: dict[str, list[list[int]]] = {}
    for number, label in table.items():
        colours.setdefault("ignore" if label == IGNORE else names[label], []).append([number] * 3)
    return Proposal(condition, _with(names, options, colours=colours))
