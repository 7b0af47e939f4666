"""The parts of a report: each takes runs and gives markup. Pure."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from reconet.data.images.draw import VOID_COLOUR
from reconet.evaluation.benchmarks import LABELS
from reconet.report.charts import Series, line_chart
from reconet.report.gather import Answers, Gathered, settings
from reconet.report.images import row, together
from reconet.report.markup import Markup, join, note, section, table, tag
from reconet.report.matrix import matrix
from reconet.types import Colour


class Curve(NamedTuple):
    title: str
    kind: str  # of the line in the log
    figure: str
    about: str = ""
    low: float | None = 0.0  # where the axis begins; None: near the lowest value
    percent: bool = False


CURVES = (
    Curve("Loss", "train", "loss", "main and auxiliary, mean since the last line"),
    Curve("mIoU, %", "val", "miou", "on the validation split", low=None, percent=True),
    Curve("Pixel accuracy, %", "val", "pixel_accuracy", "the same", low=None, percent=True),
    Curve("Learning rate", "train", "lr", "the base rate"),
    Curve(
        "Spread of the attention",
        "val",
        "attention_spread",
        "standard deviation over mean; 0 is the same everywhere, and does nothing",
    ),
    Curve(
        "Effective rank of the attention",
        "val",
        "effective_rank",
        "1 is one pattern for all channels",
        low=1.0,
    ),
    Curve(
        "Spread of lambda",
        "val",
        "lambda_spread",
        "standard deviation over mean; 0 weighs all ranks alike",
    ),
    Curve("Images a second", "train", "images_per_second", "in training"),
)


def curves(runs: Sequence[Gathered]) -> Markup:
    """One chart for each figure that any run has logged, all runs on one axis."""
    figures = []
    for one in CURVES:
        factor, unit = (100.0, " %") if one.percent else (1.0, "")
        series = [
            Series(run.name, run.curve(one.kind, one.figure, factor), number)
            for number, run in enumerate(runs)
        ]
        if any(s.points for s in series):
            figures.append(line_chart(one.title, series, unit=unit, low=one.low, about=one.about))
    if not figures:
        return section("Curves", note("Nothing was logged yet."))
    return section("Curves", tag("div", *figures, class_="charts"))


def missing(runs: Sequence[Gathered]) -> Markup:
    several = len(runs) > 1
    return join(
        note(f"{run.name}: {text}." if several else f"{text[0].upper()}{text[1:]}.")
        for run in runs
        for text in run.missing
    )


def tiles(run: Gathered) -> Markup:
    """What one wants to know first."""
    entries = []
    if run.answers is not None:
        own = run.answers.figures
        entries += [(percent(own[key]), name) for key, name in LABELS.items() if key in own]
        entries.append((f"{run.answers.step:,}", "step of the best network"))
    elif (best := run.best()) is not None:
        entries.append((percent(best["miou"]), f"mIoU, logged at step {best['step']:,}"))
    entries.append((f"{run.step():,}", "steps trained"))
    return tag("ul", *(tag("li", tag("b", v), tag("span", n)) for v, n in entries), class_="tiles")


def class_bars(answers: Answers, level: int = 2) -> Markup:
    """IoU of every class, the best one first."""
    order = sorted(range(len(answers.classes)), key=lambda k: -_or(answers.iou[k], -1.0))
    lines = [
        tag(
            "li",
            tag("span", answers.classes[k], class_="name"),
            _bar(answers.iou[k], colour=answers.palette[k], told=answers.classes[k]),
            tag("span", percent(answers.iou[k], absent="absent"), class_="figure"),
        )
        for k in order
    ]
    return section("IoU of each class", tag("ul", *lines, class_="bars"), level=level)


def confusion(answers: Answers, level: int = 2) -> Markup:
    drawn = matrix(answers.count_kk, answers.classes, answers.palette)
    return section("Confusion", drawn, level=level)


def images(runs: Sequence[Gathered], level: int = 2) -> Markup:
    """Image, truth and answer; with one run also its errors."""
    answers = [run.answers for run in runs if run.answers is not None]
    names = [run.name for run in runs if run.answers is not None]
    palette = answers[0].palette
    rows = []
    for views in zip(*(one.views for one in answers), strict=True):
        alone = len(answers) == 1
        said = ["prediction"] if alone else names
        rows.append(row(together(views), palette, said, wrong=alone))
    if not rows:
        return Markup()
    keys = _class_legend(answers[0].classes, palette)
    return section("Images", keys, *rows, level=level)


def recipe(run: Gathered, level: int = 2) -> Markup:
    """All settings; those that differ from their defaults first, the others folded away."""
    lines = settings(run.recipe)
    columns = ("setting", "value", "what it is")
    set_here, default = (
        [(s.name, tag("code", s.value), s.about) for s in lines if s.changed is changed]
        for changed in (True, False)
    )
    return section(
        "Recipe",
        table(columns, set_here, caption="Set for this run"),
        tag(
            "details",
            tag("summary", f"{len(default)} settings as they are by default"),
            table(columns, default),
        ),
        level=level,
    )


def scores_table(runs: Sequence[Gathered]) -> Markup:
    """Scores of all runs; the best of each column is bold."""
    figures = [run.answers.figures if run.answers else {} for run in runs]
    shown = [key for key in LABELS if any(key in own for own in figures)]
    tops = {key: max(_or(own.get(key), -1.0) for own in figures) for key in shown}
    rows = []
    for number, (run, own) in enumerate(zip(runs, figures, strict=True)):
        cells = [
            tag("span", percent(own.get(key)), class_="best" if own.get(key) == top else None)
            for key, top in tops.items()
        ]
        name = join([tag("span", class_=f"key k{number % 8}"), run.name])
        step = f"{run.answers.step:,}" if run.answers else "-"
        rows.append((name, run.what, *cells, step, f"{run.step():,}"))
    head = ("run", "scored on", *(LABELS[key] for key in shown), "best step", "steps")
    protocols = {run.answers.protocol for run in runs if run.answers}
    return section(
        "Scores", *(tag("p", f"Protocol: {one}.") for one in sorted(protocols)), table(head, rows)
    )


def class_comparison(runs: Sequence[Gathered]) -> Markup:
    """IoU of every class, run by run; of two runs also the difference."""
    answers = [run.answers for run in runs if run.answers is not None]
    rows = []
    for k, name in enumerate(answers[0].classes):
        values = [one.iou[k] for one in answers]
        bars = tag(
            "div", *(_bar(v, style=i, told=name) for i, v in enumerate(values)), class_="stack"
        )
        gap = values[-1] - values[0]
        change = [] if len(values) != 2 else ["-" if gap != gap else f"{100 * gap:+.1f}"]
        swatch = tag("span", class_="swatch", style=_background(answers[0].palette[k]))
        label = join([swatch, name])
        rows.append((label, bars, *(percent(v, absent="absent") for v in values), *change))
    names = [run.name for run in runs if run.answers is not None]
    head = ("class", "", *names, *([f"{names[1]} - {names[0]}"] if len(names) == 2 else []))
    return section("IoU of each class", table(head, rows))


def differences(runs: Sequence[Gathered]) -> Markup:
    """The settings in which the runs differ."""
    lines = zip(*(settings(run.recipe) for run in runs), strict=True)
    rows = [
        (same[0].name, *(tag("code", s.value) for s in same))
        for same in lines
        if len({s.value for s in same}) > 1
    ]
    title = "Settings that differ"
    if not rows:
        return section(title, tag("p", "None: all runs have the same recipe."))
    return section(title, table(("setting", *(run.name for run in runs)), rows))


def percent(value: float | None, absent: str = "-") -> str:
    return absent if value is None or math.isnan(value) else f"{100 * value:.1f}\u00a0%"


def _bar(value: float, *, colour: Colour | None = None, style: int = 0, told: str = "") -> Markup:
    width = f"width:{100 * _or(value, 0.0):.2f}%"
    if colour is None:
        inner, kind = tag("span", class_=f"bar b{style % 8}", style=width), "track thin"
    else:
        inner = tag("span", class_="bar", style=f"{width};{_background(colour)}")
        kind = "track"
    title = f"{told}: {percent(value, absent='absent')}"
    return tag("span", inner, class_=kind, title=title, aria_hidden="true")


def _class_legend(classes: Sequence[str], palette: Sequence[Colour]) -> Markup:
    keys = [
        tag("li", tag("span", class_="swatch", style=_background(colour)), name)
        for name, colour in zip(classes, palette, strict=True)
    ]
    void = tag("li", tag("span", class_="swatch", style=_background(VOID_COLOUR)), "void")
    return tag("ul", *keys, void, class_="legend")


def _background(colour: Colour) -> str:
    return f"background:rgb({colour[0]},{colour[1]},{colour[2]})"


def _or(value: float | None, other: float) -> float:
    return other if value is None or math.isnan(value) else value
