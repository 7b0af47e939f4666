"""A study as one HTML file that asks nobody for anything, and as Markdown for documents."""

import json
from collections.abc import Sequence
from pathlib import Path

from reconet.recipes.storage import without_paths
from reconet.report.markup import image, note, section, table, tag
from reconet.report.style import page
from reconet.study.plots import figures, png
from reconet.study.result import (
    HEAD,
    StudyResult,
    caption,
    conditions,
    table_rows,
)
from reconet.study.spectrum import Spectrum
from reconet.system.files import write_text
from reconet.system.paths import short_words
from reconet.system.run_files import REPORT

ABOUT = {
    "scores": "Scores over seeds",
    "training": "Over training, means over seeds",
    "spectrum": "Ranks that the attention uses, against the ranks that it has",
    "cost": "Score against cost",
}
PARTS = ("lambda", "channel", "row", "column")
SPECTRUM_HEAD = (
    "variant",
    *(f"effective, {part}" for part in PARTS),
    *(f"for 90 %, {part}" for part in PARTS),
    *(f"for 99 %, {part}" for part in PARTS),
)


def write_page(result: StudyResult) -> Path:
    path = result.out / REPORT
    write_text(path, html(result))
    return path


def html(result: StudyResult) -> str:
    title = f"Study: {result.study.name}"
    parts = [tag("h1", title), tag("p", result.study.question, class_="lead")]
    if result.missing:
        parts.append(note("Not everything is there. " + _missing(result)))
    parts.append(section("Variants", table(("variant", "what it is"), _abouts(result))))
    rows = table(HEAD, table_rows(result))
    parts.append(section("Results", rows, *(tag("p", line) for line in caption(result))))
    for name, figure in figures(result).items():
        shown = image(png(figure), ABOUT[name], style="max-width:100%;height:auto")
        parts.append(section(ABOUT[name], shown))
    spectrum_table = spectrum_rows(result)
    if spectrum_table:
        parts.append(section("Ranks in use", table(SPECTRUM_HEAD, spectrum_table)))
    parts.append(section("Conditions", table(("what", "value"), conditions(result))))
    recipe = json.dumps(without_paths(result.recipe).model_dump(mode="json"), indent=2)
    parts.append(tag("details", tag("summary", "the recipe"), tag("pre", recipe)))
    return page(f"{title} - reconet", *parts)


def markdown(result: StudyResult, images: Sequence[Path] = (), beside: Path | None = None) -> str:
    """A table and its conditions, with links to images relative to `beside`."""
    lines = _markdown_table(HEAD, table_rows(result))
    lines += ["", *(f"{line}." for line in caption(result)), ""]
    lines += [f"- {name}: {value}" for name, value in conditions(result)]
    if result.missing:
        lines += ["", f"Not everything is there: {_missing(result)}."]
    if result.study.name == "rank" and spectrum_rows(result):
        lines += ["", *_markdown_table(SPECTRUM_HEAD, spectrum_rows(result))]
    for path in images:
        name = ABOUT[path.stem.rpartition("-")[2]]
        shown = path if beside is None else path.relative_to(beside)
        lines += ["", f"![{name}]({shown.as_posix()})"]
    return "\n".join(lines) + "\n"


def spectrum_rows(result: StudyResult) -> list[list[str]]:
    """Means over seeds, for the variants that have a tensor reconstruction."""
    rows = []
    for row in result.rows:
        seen = [cell.spectrum for cell in row.cells if cell.spectrum is not None]
        if seen:
            rows.append([row.variant, *_means(seen)])
    return rows


def _means(seen: Sequence[Spectrum]) -> list[str]:
    groups = [
        [one.effective for one in seen],
        [one.for_90 for one in seen],
        [one.for_99 for one in seen],
    ]
    return [
        f"{sum(one[part] for one in group) / len(group):.2f}" for group in groups for part in PARTS
    ]


def _missing(result: StudyResult) -> str:
    return "; ".join(short_words(line) for line in result.missing)


def _abouts(result: StudyResult) -> list[tuple[str, str]]:
    return [(row.variant, row.about) for row in result.rows]


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
