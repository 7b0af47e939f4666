"""Propose which class each colour in RGB masks means.

A colour is given to a class only where something tells it: a known palette, the file of another
program, or grey values that are numbers. Otherwise the proposal lists the colours, and a person has
to put in the names.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from reconet.data.check.numbers import find_label_map
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
    proposal = told or _by_grey(values, options) or _by_voc(seen, options)
    if proposal is not None:
        return (proposal,)
    if len(seen) > MOST_COLOURS or values.incomplete:
        return ()
    listed = ", ".join(
        f'"NAME": {list(colour_of(code))}' for code, _ in values.pixels.most_common()
    )
    return (
        Proposal(
            condition='put a class, or "ignore", for each NAME',
            option="colours",
            value=f"{{{listed}}}",
            unfinished=True,
        ),
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


def _by_grey(values: Values, options: FolderOptions) -> Proposal | None:
    """Read red = green = blue as a number."""
    if any(len(set(colour_of(code))) > 1 for code in values.pixels):
        return None
    grey = Values(
        pixels=Counter({code & 255: n for code, n in values.pixels.items()}),
        masks=Counter({code & 255: n for code, n in values.masks.items()}),
        count=values.count,
        incomplete=values.incomplete,
        zero=None,
    )
    count = len(options.classes)
    label_map = find_label_map(grey, options)
    if label_map is None and set(grey.pixels) <= {*range(count), *options.ignored}:
        label_map = {n: n for n in range(count)} | dict.fromkeys(options.ignored, IGNORE)
    if label_map is None:
        return None
    names = dict(enumerate(options.classes)) | {IGNORE: "ignore"}
    colours = {names[label]: (n, n, n) for n, label in label_map.items()}
    last = max(n for n, label in label_map.items() if label != IGNORE)
    return _proposal(
        f"if grey values are class numbers, up to {last} for {names[count - 1]}", colours
    )


def _by_voc(seen: set[Colour], options: FolderOptions) -> Proposal | None:
    """Read the colours by which many programs number classes."""
    count = len(options.classes)
    palette = colour_map(count + 1)
    rest = seen - {VOID_COLOUR}
    if len(rest - {BLACK}) < 2:  # a single colour may be anybody's
        return None
    void: dict[str, Colour] = {"ignore": VOID_COLOUR} if VOID_COLOUR in seen else {}
    if rest <= set(palette[:count]):
        colours = dict(zip(options.classes, palette[:count], strict=True))
        return _proposal(
            "if the colours are numbered as in PASCAL VOC, from black on", colours | void
        )
    if not void and rest <= set(palette) and palette[count] in rest:
        colours = {"ignore": BLACK} | dict(zip(options.classes, palette[1:], strict=True))
        return _proposal("if the colours are numbered as in PASCAL VOC, and black is void", colours)
    return None
