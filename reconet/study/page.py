"""Write a study as one HTML file that loads nothing from elsewhere, and as Markdown."""

import json
from collections.abc import Sequence
from pathlib import Path

from reconet.recipes.storage import without_paths
from reconet.report.html import html_page, png_source
from reconet.study.plots import draw_figures, encode_png
from reconet.study.result import StudyResult, conditions
from reconet.study.spectrum import PARTS, Spectrum
from reconet.study.tables import markdown_lines, study_tables
from reconet.system.files import write_text
from reconet.system.paths import short_paths_in_text
from reconet.system.run_files import REPORT

FIGURE_TITLES = {
    "scores": "Scores over seeds",
    "differences": "Differences to the baseline, seed by seed",
    "training": "Over training, means over seeds",
    "spectrum": "Ranks that the attention uses, against the ranks that it has",
    "cost": "Score against cost",
}
TABLE_TITLES = ("Results", "What the attention does")
SPECTRUM_COLUMNS = (
    "variant",
    *(f"effective, {part}" for part in PARTS),
    *(f"for 90 %, {part}" for part in PARTS),
    *(f"for 99 %, {part}" for part in PARTS),
)


def write_page(result: StudyResult) -> None:
    """Write report.html into the directory of the study."""
    write_text(result.out / REPORT, render_html(result))


def render_html(result: StudyResult) -> str:
    """Return the report as one HTML page."""
    figures = draw_figures(result).items()
    return html_page(
        "study.html",
        kind="study",
        title=f"Study: {result.study.name}",
        question=result.study.question,
        missing=_missing(result),
        variants=[(row.variant, row.about) for row in result.rows],
        tables=[
            # No line breaks between a sign and its number.
            (title, text, [[cell.replace("± ", "±\u00a0") for cell in row] for row in text.rows])
            for title, text in zip(TABLE_TITLES, study_tables(result), strict=False)
        ],
        figures=[(FIGURE_TITLES[name], png_source(encode_png(one))) for name, one in figures],
        spectrum_columns=SPECTRUM_COLUMNS,
        spectra=spectrum_rows(result),
        conditions=conditions(result),
        recipe=json.dumps(without_paths(result.recipe).model_dump(mode="json"), indent=2),
    )


def render_markdown(
    result: StudyResult, images: Sequence[Path] = (), beside: Path | None = None
) -> str:
    """Return the table and its conditions, with links to images relative to `beside`."""
    lines = []
    for text in study_tables(result):
        lines += [*markdown_lines(text.columns, text.rows), ""]
        lines += [*(f"{line}." for line in text.caption), ""]
    lines += [f"- {name}: {value}" for name, value in conditions(result)]
    if result.missing:
        lines += ["", f"Some trials are missing: {_missing(result)}."]
    if result.study.name == "rank" and spectrum_rows(result):
        lines += ["", *markdown_lines(SPECTRUM_COLUMNS, spectrum_rows(result))]
    for path in images:
        name = FIGURE_TITLES[path.stem.rpartition("-")[2]]
        link = path if beside is None else path.relative_to(beside)
        lines += ["", f"![{name}]({link.as_posix()})"]
    return "\n".join(lines) + "\n"


def spectrum_rows(result: StudyResult) -> list[list[str]]:
    """Return means over seeds, for the variants that have a tensor reconstruction."""
    rows = []
    for row in result.rows:
        spectra = [trial.spectrum for trial in row.trials if trial.spectrum is not None]
        if spectra:
            rows.append([row.variant, *_means(spectra)])
    return rows


def _means(spectra: Sequence[Spectrum]) -> list[str]:
    groups = [
        [one.effective for one in spectra],
        [one.for_90 for one in spectra],
        [one.for_99 for one in spectra],
    ]
    return [
        f"{sum(one[part] for one in group) / len(group):.2f}" for group in groups for part in PARTS
    ]


def _missing(result: StudyResult) -> str:
    return "; ".join(short_paths_in_text(line) for line in result.missing)
