"""Compose the page of a report: which sections, in which order."""

from collections.abc import Sequence
from itertools import pairwise

from reconet.report import sections
from reconet.report.html import Markup, html_page, note, section, tag
from reconet.report.run_results import RunResults
from reconet.system.readable import counted


def compose_page(runs: Sequence[RunResults], environment: Markup) -> str:
    """Compose the page of one run, or of several compared."""
    if len(runs) == 1:
        title, parts = runs[0].name, _one_run(runs[0])
    else:
        title = f"{len(runs)} runs compared"
        parts = _several_runs(title, runs)
    return html_page(
        f"{title} - reconet report", *parts, environment, sections.training_machines(runs)
    )


def _one_run(run: RunResults) -> list[Markup]:
    parts = [
        tag("h1", run.name),
        _lead(run),
        sections.missing([run]),
        sections.key_figures(run),
        sections.curves([run]),
    ]
    if run.validation is not None:
        parts += [
            sections.class_bars(run.validation),
            sections.confusion(run.validation),
            sections.images([run]),
        ]
    return [*parts, sections.recipe(run)]


def _several_runs(title: str, runs: Sequence[RunResults]) -> list[Markup]:
    scored = [run for run in runs if run.validation is not None]
    why_not = incomparable(scored)
    side_by_side = why_not is None and len(scored) > 1
    parts = [
        tag("h1", title),
        tag("p", ", ".join(run.name for run in runs), class_="lead"),
        sections.missing(runs),
        sections.scores_table(runs),
        sections.curves(runs),
    ]
    if why_not is not None:
        parts.append(section("Class by class", note(why_not)))
    elif side_by_side:
        parts += [sections.class_comparison(scored), sections.images(scored)]
    parts.append(sections.differences(runs))
    return [*parts, *(_folded_run(run, side_by_side) for run in runs)]


def incomparable(runs: Sequence[RunResults]) -> str | None:
    """Say why classes and images of these runs cannot stand side by side, if they cannot."""
    for first, other in pairwise(runs):
        assert first.validation
        assert other.validation
        both = f"{first.name} and {other.name}"
        if first.validation.classes != other.validation.classes:
            return f"{both} know different classes: each has its own below."
        first_images, other_images = (
            [row.name for row in run.image_rows] for run in (first.validation, other.validation)
        )
        if first_images != other_images or first.split != other.split:
            return f"{both} were scored on different images: each has its own below."
    return None


def _folded_run(run: RunResults, side_by_side: bool) -> Markup:
    """Show one run of several, without the parts that stand side by side above."""
    parts, validation = [_lead(run)], run.validation
    if validation is not None:
        if not side_by_side:
            parts.append(sections.class_bars(validation, level=3))
        parts.append(sections.confusion(validation, level=3))
        if not side_by_side:
            parts.append(sections.images([run], level=3))
    parts.append(sections.recipe(run, level=3))
    what = "confusion, recipe" if side_by_side else "classes, confusion, images, recipe"
    return section(run.name, tag("details", tag("summary", what), *parts))


def _lead(run: RunResults) -> Markup:
    model, validation = run.recipe.model, run.validation
    text = f"{model.title}, trained on {run.recipe.data.title}."
    if validation is not None:
        text += (
            f" Scored on {run.split}, {counted(validation.images, 'image')}: {validation.protocol}."
        )
    return tag("p", text, class_="lead")
