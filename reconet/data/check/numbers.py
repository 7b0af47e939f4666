"""Propose what the numbers in masks may mean, where they do not fit the classes.

Every proposal leaves labels that are right as they are. Where a number would become void, and
others would move for it, it has to look like void.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import gcd

from reconet.data.check.report import Proposal
from reconet.data.check.values import Values
from reconet.data.sets.folder_masks import FolderOptions
from reconet.types import IGNORE

FEWEST_GREYS = 3  # between black and white, that make edges smooth
MOST_GREY = 0.2  # of the pixels
NARROWEST = 100  # difference of dark and bright
MOST_VOID = 3  # numbers that may all mean void
NEARLY_ALL = 0.9
BACKGROUND = "background"


def propose_for_numbers(
    values: Values, illegal: Collection[int], options: FolderOptions
) -> tuple[Proposal, ...]:
    """Propose settings for numbers of which some are illegal."""
    if options.label_map is not None:
        return tuple(_more_in_label_map(illegal, options))
    whole = propose_background(values, options) or _smooth_edges(values, options)
    if whole is not None:
        return (whole,)
    label_map = find_label_map(values, options)
    if label_map is not None:
        # Where 0 would become void, a name may be missing instead: only a person knows.
        names = _missing_names(values, illegal, options) if label_map.get(0) == IGNORE else ()
        return (*names, _label_map_proposal(label_map, options))
    return (*_missing_names(values, illegal, options), *_more_void(illegal, options))


def propose_background(values: Values, options: FolderOptions) -> Proposal | None:
    """Propose a class for all that is not the only class, if the numbers then have a meaning."""
    if len(options.classes) != 1 or options.label_map is not None or options.colours is not None:
        return None
    names = (BACKGROUND, *options.classes)
    two = options.model_copy(update={"classes": names})
    if set(values.pixels) - set(options.ignored) == {0, 1}:
        return Proposal(
            condition=f"if 0 is {BACKGROUND} and 1 is {names[1]}", option="classes", value=names
        )
    label_map = find_label_map(values, two)
    mended = propose_void_class(values, two) or _smooth_edges(values, two)
    if mended is None and label_map is not None:
        mended = _label_map_proposal(label_map, two)
    if mended is None:
        return None
    return Proposal(
        condition=mended.condition,
        option="classes",
        value=names,
        also={mended.option: mended.value},
    )


def find_label_map(values: Values, options: FolderOptions) -> dict[int, int] | None:
    """Return a label map if the numbers are evenly spaced or start at 1, else None.

    A number that is void by default may be a class. One that a person called void is not.
    """
    count, seen = len(options.classes), set(values.pixels)
    labelled = seen - set(options.ignored)
    for numbers in (labelled,) if options.ignore_is_given else (labelled, seen):
        label_map = (
            _evenly_spaced(numbers, count, values)
            or _from_one(numbers, count, values)
            or _trimap(numbers, options.classes, values)
        )
        if label_map is not None:
            return label_map | {n: IGNORE for n in options.ignored if n not in numbers}
    return None


def propose_void_class(values: Values, options: FolderOptions) -> Proposal | None:
    """Propose to read the void number as the last class, where only that has no pixel at all."""
    last = len(options.classes) - 1
    void = [number for number in options.ignored if number in values.pixels]
    told = options.ignore_is_given or options.label_map is not None or options.colours is not None
    if told or last < 1 or len(void) != 1 or set(values.pixels) != {*range(last), *void}:
        return None
    if values.is_stray(void[0]) or values.looks_like_void(void[0]):
        return None
    label_map = {number: number for number in range(last)} | {void[0]: last}
    return Proposal(
        condition=f"if {void[0]} means {options.classes[last]}",
        option="label_map",
        value=_as_json(label_map),
    )


def _evenly_spaced(numbers: set[int], count: int, values: Values) -> dict[int, int] | None:
    """Read 0, 50, 100 as 0, 1, 2. The last must be there, and nothing between them.

    Small steps give numbers another class that have one. So nearly all of them must be there.
    """
    last = max(numbers, default=0)
    if last < count or count < 2 or 0 not in numbers or values.is_stray(last):
        return None
    step = gcd(*numbers)
    if last == step * (count - 1) and (step >= count or _nearly_all(numbers, count)):
        return {step * label: label for label in range(count)}
    in_order = sorted(numbers)
    pace = last / (count - 1)  # such as 127.5
    if len(in_order) == count and pace >= max(count, 2 * FEWEST_GREYS):
        ideal = [label * pace for label in range(count)]
        if all(abs(number - at) <= 1 for number, at in zip(in_order, ideal, strict=True)):
            return {number: label for label, number in enumerate(in_order)}
    return None


def _from_one(numbers: set[int], count: int, values: Values) -> dict[int, int] | None:
    """Read 1..k as 0..k-1, if there is no 0, or if 0 looks like void."""
    if not numbers:
        return None
    step, last = gcd(*numbers), max(numbers)
    if last != step * count or values.is_stray(last):
        return None
    labels = {step * (label + 1): label for label in range(count)}
    if 0 not in numbers:
        return labels if len(numbers) >= NEARLY_ALL * count else None
    return {0: IGNORE} | labels if values.looks_like_void(0) else None


def _trimap(numbers: set[int], classes: Sequence[str], values: Values) -> dict[int, int] | None:
    """Read 1..k as 0..k-1, and k + 1 as void, if it lies between the others.

    Of two classes, masks of this kind have the object first, and the background second.
    """
    count = len(classes)
    if numbers != set(range(1, count + 2)) or not values.looks_like_void(count + 1):
        return None
    labels = {number: number - 1 for number in range(1, count + 1)}
    if count == 2 and classes[0].lower() == BACKGROUND:
        labels = {1: 1, 2: 0}
    return labels | {count + 1: IGNORE}


def _nearly_all(numbers: set[int], count: int) -> bool:
    return len(numbers) >= max(4, NEARLY_ALL * count)


def _smooth_edges(values: Values, options: FolderOptions) -> Proposal | None:
    """Read dark and bright as two classes, and the greys half-way between them as void."""
    if len(options.classes) != 2 or options.ignore_is_given:
        return None
    low, high = min(values.pixels), max(values.pixels)
    quarter = (high - low) // 4
    dark, bright = low + quarter, high - quarter
    greys = {n: pixels for n, pixels in values.pixels.items() if low < n < high}
    inner = [number for number in greys if dark <= number < bright]
    most = {number for number, _ in values.pixels.most_common(2)}
    fits = (
        high - low >= NARROWEST
        and most == {low, high}
        and len(inner) >= FEWEST_GREYS
        and sum(greys.values()) <= MOST_GREY * values.pixels.total()
        and 2 * max(greys.values()) <= sum(greys.values())  # one that stands out is a class
    )
    if not fits:
        return None
    first, second = options.classes
    return Proposal(
        condition=f"if dark is {first}, bright is {second}, and grey edges are void",
        option="label_map",
        value={f"0-{dark - 1}": 0, f"{dark}-{bright - 1}": "ignore", f"{bright}-255": 1},
    )


def _missing_names(
    values: Values, illegal: Collection[int], options: FolderOptions
) -> Iterator[Proposal]:
    """Propose names for the next numbers, if all of them are there and none is stray."""
    count = len(options.classes)
    following = set(range(count, max(illegal) + 1))
    legal = {number for number in values.pixels if number < count}
    if following == set(illegal) and 2 * len(legal) >= count:
        if any(values.is_stray(number) for number in illegal):
            return
        names = [*options.classes, *(f"class {number}" for number in sorted(illegal))]
        which = ", ".join(map(str, sorted(illegal)))
        one = len(illegal) == 1
        what = "is a class whose name is" if one else "are classes whose names are"
        yield Proposal(condition=f"if {which} {what} missing", option="classes", value=names)


def _more_void(illegal: Collection[int], options: FolderOptions) -> Iterator[Proposal]:
    if len(illegal) <= MOST_VOID and all(0 <= number <= 255 for number in illegal):
        which = ", ".join(map(str, sorted(illegal)))
        yield Proposal(
            condition=f"if {which} {'means' if len(illegal) == 1 else 'mean'} void",
            option="ignore",
            value=[*options.ignored, *sorted(illegal)],
        )


def _more_in_label_map(illegal: Collection[int], options: FolderOptions) -> Iterator[Proposal]:
    if len(illegal) <= MOST_VOID and all(0 <= number <= 255 for number in illegal):
        known = {str(number): meaning for number, meaning in (options.label_map or {}).items()}
        which = ", ".join(map(str, sorted(illegal)))
        yield Proposal(
            condition=f"if {which} {'means' if len(illegal) == 1 else 'mean'} void",
            option="label_map",
            value=known | {str(number): "ignore" for number in sorted(illegal)},
        )


def _label_map_proposal(label_map: Mapping[int, int], options: FolderOptions) -> Proposal:
    number_of = {label: number for number, label in label_map.items()}
    ends = {0: options.classes[0], len(options.classes) - 1: options.classes[-1]}
    means = [f"{number_of[label]} means {name}" for label, name in ends.items()]
    void = [
        str(number)
        for number, label in label_map.items()
        if label == IGNORE and number not in options.ignored
    ]
    if void:
        means.append(f"{', '.join(void)} is void")
    return Proposal(
        condition=f"if {', '.join(means[:-1])} and {means[-1]}" if means[1:] else f"if {means[0]}",
        option="label_map",
        value=_as_json(label_map),
    )


def _as_json(label_map: Mapping[int, int]) -> dict[str, int]:
    return {str(number): label for number, label in label_map.items()}
