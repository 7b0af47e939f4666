"""The sections of a report: runs in, markup out."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from reconet.data.images.draw import VOID_COLOUR
from reconet.evaluation.benchmarks import score_labels
from reconet.report.html import (
    Markup,
    Series,
    draw_confusion,
    join,
    line_chart,
    note,
    percent,
    section,
    table,
    tag,
    tiles,
)
from reconet.report.image_rows import merge_rows, show_row
from reconet.report.run_results import RunResults, ValidationResults, describe_settings
from reconet.system.readable import counted
from reconet.types import Colour, Palette

MACHINE = ("processes", "reconet", "torch", "processor", "GPU", "system")  # keys of a start


class Curve(NamedTuple):
    """A value of the log that is drawn as a curve."""

    title: str
    kind: str  # of the line in the log
    value: str
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


def curves(runs: Sequence[RunResults]) -> Markup:
    """Draw one chart for each value that any run has logged, with all runs in it."""
    charts = []
    for curve in CURVES:
        factor, unit = (100.0, " %") if curve.percent else (1.0, "")
        series = [
            Series(run.name, run.curve(curve.kind, curve.value, factor), number)
            for number, run in enumerate(runs)
        ]
        if any(one.points for one in series):
            charts.append(
                line_chart(curve.title, series, unit=unit, low=curve.low, about=curve.about)
            )
    if not charts:
        return section("Curves", note("Nothing was logged yet."))
    return section("Curves", tag("div", *charts, class_="charts"))


def missing(runs: Sequence[RunResults]) -> Markup:
    """Say which parts are missing, and why."""
    several = len(runs) > 1
    return join(
        note(f"{run.name}: {text}." if several else f"{text[0].upper()}{text[1:]}.")
        for run in runs
        for text in run.missing
    )


def key_figures(run: RunResults) -> Markup:
    """Show the scores and the number of steps, in large type."""
    entries = []
    if run.validation is not None:
        own = run.validation.scores
        entries += [(percent(own[key]), n) for key, n in score_labels().items() if key in own]
        entries.append((f"{run.validation.step:,}", "step of the best network"))
    elif (best := run.best()) is not None:
        entries.append((percent(best["miou"]), f"mIoU, logged at step {best['step']:,}"))
    entries.append((f"{run.last_step():,}", "steps trained"))
    return tiles(entries)


def class_bars(validation: ValidationResults, level: int = 2) -> Markup:
    """Draw the IoU of every class, the best one first."""
    classes, iou = validation.classes, validation.iou
    order = sorted(range(len(classes)), key=lambda k: -_number_or(iou[k], -1.0))
    lines = [
        tag(
            "li",
            tag("span", classes[k], class_="name"),
            _bar(iou[k], name=classes[k], colour=validation.palette[k]),
            tag("span", percent(iou[k], absent="absent"), class_="figure"),
        )
        for k in order
    ]
    return section("IoU of each class", tag("ul", *lines, class_="bars"), level=level)


def confusion(validation: ValidationResults, level: int = 2) -> Markup:
    """Draw the confusion matrix."""
    drawn = draw_confusion(validation.count_kk, validation.classes, validation.palette)
    return section("Confusion", drawn, level=level)


def images(runs: Sequence[RunResults], level: int = 2) -> Markup:
    """Show image, truth and predictions. Errors are drawn only if there is one run."""
    scored = [(run.name, run.validation) for run in runs if run.validation is not None]
    first, alone = scored[0][1], len(scored) == 1
    names = ["prediction"] if alone else [name for name, _ in scored]
    rows = [
        show_row(merge_rows(same_image), first.palette, names, errors=alone)
        for same_image in zip(*(one.image_rows for _, one in scored), strict=True)
    ]
    if not rows:
        return Markup()
    legend = class_legend(first.classes, first.palette)
    return section("Images", legend, *rows, level=level)


def recipe(run: RunResults, level: int = 2) -> Markup:
    """List all settings. Those with their default value are folded away."""
    settings = describe_settings(run.recipe)
    columns = ("setting", "value", "what it is")
    changed, default = (
        [(s.name, tag("code", s.value), s.about) for s in settings if s.changed is is_changed]
        for is_changed in (True, False)
    )
    return section(
        "Recipe",
        table(columns, changed, caption="Set for this run"),
        tag(
            "details",
            tag("summary", f"{counted(len(default), 'setting')} with the default"),
            table(columns, default),
        ),
        level=level,
    )


def scores_table(runs: Sequence[RunResults]) -> Markup:
    """List the scores of all runs. Bold is the best of those with the same data and protocol."""
    labels = score_labels()
    scores = [run.validation.scores if run.validation else {} for run in runs]
    keys = [key for key in labels if any(key in own for own in scores)]
    rivals = {run.name: [o.scored_by for o in runs].count(run.scored_by) > 1 for run in runs}
    rows = []
    for number, (run, own) in enumerate(zip(runs, scores, strict=True)):
        tops = _best_scores(keys, [o for o in runs if o.scored_by == run.scored_by])
        cells = [
            tag(
                "span",
                percent(own.get(key)),
                class_="best" if rivals[run.name] and own.get(key) == tops[key] else None,
            )
            for key in keys
        ]
        name = join([tag("span", class_=f"key k{number % 8}"), run.name])
        step = f"{run.validation.step:,}" if run.validation else "-"
        rows.append((name, run.split, *cells, step, f"{run.last_step():,}"))
    head = ("run", "scored on", *(labels[key] for key in keys), "best step", "steps")
    protocols = sorted({run.validation.protocol for run in runs if run.validation})
    lines = [tag("p", f"Protocol: {protocol}.") for protocol in protocols]
    if len({run.scored_by for run in runs if run.validation}) > 1:
        lines.append(
            note(
                "These runs were not all scored on the same images, classes and protocol. Bold is "
                "the best of those that were. Do not compare the others."
            )
        )
    return section("Scores", *lines, table(head, rows))


def _best_scores(keys: Sequence[str], runs: Sequence[RunResults]) -> dict[str, float]:
    scores = [run.validation.scores for run in runs if run.validation is not None]
    return {
        key: max((_number_or(own.get(key), -1.0) for own in scores), default=-1.0) for key in keys
    }


def class_comparison(runs: Sequence[RunResults]) -> Markup:
    """Compare the IoU of every class. With two runs the last column is the difference."""
    scored = [(run.name, run.validation) for run in runs if run.validation is not None]
    names, first = [name for name, _ in scored], scored[0][1]
    rows = []
    for k, name in enumerate(first.classes):
        values = [validation.iou[k] for _, validation in scored]
        bars = [_bar(value, name=name, style=number) for number, value in enumerate(values)]
        gap = values[-1] - values[0]
        change = [] if len(values) != 2 else ["-" if math.isnan(gap) else f"{100 * gap:+.1f}"]
        swatch = tag("span", class_="swatch", style=_background(first.palette[k]))
        figures = [percent(value, absent="absent") for value in values]
        rows.append((join([swatch, name]), tag("div", *bars, class_="stack"), *figures, *change))
    head = ("class", "", *names, *([f"{names[1]} - {names[0]}"] if len(names) == 2 else []))
    return section("IoU of each class", table(head, rows))


def differences(runs: Sequence[RunResults]) -> Markup:
    """List the settings in which the runs differ."""
    lines = zip(*(describe_settings(run.recipe) for run in runs), strict=True)
    rows = [
        (same[0].name, *(tag("code", s.value) for s in same))
        for same in lines
        if len({s.value for s in same}) > 1
    ]
    title = "Settings that differ"
    if not rows:
        return section(title, tag("p", "None: all runs have the same recipe."))
    return section(title, table(("setting", *(run.name for run in runs)), rows))


def training_machines(runs: Sequence[RunResults]) -> Markup:
    """List the machines that the runs were trained on. Old runs did not record them."""
    title = "Trained on"
    rows = [
        (run.name, *(str(start.get(key, "-")) for key in ("step", *MACHINE)))
        for run in runs
        for start in run.starts
    ]
    if not rows:
        return section(title, note("These runs did not record the machine they were trained on."))
    return section(title, table(("run", "from step", *MACHINE), rows))


def _bar(value: float, *, name: str, colour: Colour | None = None, style: int = 0) -> Markup:
    width = f"width:{100 * _number_or(value, 0.0):.2f}%"
    if colour is None:
        inner, kind = tag("span", class_=f"bar b{style % 8}", style=width), "track thin"
    else:
        inner = tag("span", class_="bar", style=f"{width};{_background(colour)}")
        kind = "track"
    title = f"{name}: {percent(value, absent='absent')}"
    return tag("span", inner, class_=kind, title=title, aria_hidden="true")


def class_legend(classes: Sequence[str], palette: Palette) -> Markup:
    """List the classes with their colours, and void."""
    keys = [
        tag("li", tag("span", class_="swatch", style=_background(colour)), name)
        for name, colour in zip((*classes, "void"), (*palette, VOID_COLOUR), strict=True)
    ]
    return tag("ul", *keys, class_="legend")


def _background(colour: Colour) -> str:
    return f"background:rgb({colour[0]},{colour[1]},{colour[2]})"


def _number_or(value: float | None, other: float) -> float:
    return other if value is None or math.isnan(value) else value
