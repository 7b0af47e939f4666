"""Write a study as tables of text, as Markdown, and as one HTML file that loads nothing."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from reconet.recipes import without_paths
from reconet.report import html_page, png_source
from reconet.study.plots import draw_figures, encode_png
from reconet.study.results import Estimate, StudyResult, conditions
from reconet.study.trial import LIVENESS, PARTS
from reconet.system.readable import short_paths_in_text

FIGURE_TITLES = {
    "scores": "Scores over seeds",
    "differences": "Differences to the baseline, seed by seed",
    "training": "Over training, means over seeds",
    "spectrum": "Ranks that the attention uses, against the ranks that it has",
    "cost": "Score and cost",
}
SCORE_COLUMNS = (
    *("variant", "mIoU %", "95 %", "seeds", "to baseline", "95 %"),
    *("params M", "MACs G", "img/s", "paper %"),
)
ATTENTION_COLUMNS = (
    *("variant", "mIoU %", "with mean A %", "lost", "95 %"),
    *("spread of A", "eff. rank", "spread of lambda"),
)
SPECTRUM_FIGURES = (("effective", "effective"), ("for_90", "for 90 %"), ("for_99", "for 99 %"))


def render_html(result: StudyResult) -> str:
    """Return the report as one HTML page."""
    figures, spectra = draw_figures(result).items(), spectrum_table(result)
    return html_page(
        "study.html",
        kind="study",
        title=f"Study: {result.study.name}",
        question=result.study.question,
        missing=_missing(result),
        variants=[(row.variant, row.about) for row in result.rows],
        tables=[
            # No line breaks between a sign and its number.
            (text.title, text, [[cell.replace("± ", "±\u00a0") for cell in x] for x in text.rows])
            for text in study_tables(result)
        ],
        figures=[(FIGURE_TITLES[name], png_source(encode_png(one))) for name, one in figures],
        spectrum_columns=spectra.columns,
        spectra=spectra.rows,
        conditions=conditions(result),
        recipe=json.dumps(without_paths(result.recipe).model_dump(mode="json"), indent=2),
    )


def render_markdown(result: StudyResult, images: Sequence[Path] = ()) -> str:
    """Return the tables and their conditions, with images that are in the same folder."""
    lines = []
    for text in study_tables(result):
        lines += [*text.markdown(), "", *(f"{line}." for line in text.caption), ""]
    lines += [f"- {name}: {value}" for name, value in conditions(result)]
    if result.missing:
        lines += ["", f"Some trials are missing: {_missing(result)}."]
    spectra = spectrum_table(result)
    if result.study.name == "rank" and spectra.rows:
        lines += ["", *spectra.markdown()]
    for path in images:
        lines += ["", f"![{FIGURE_TITLES[path.stem.rpartition('-')[2]]}]({path.name})"]
    return "\n".join(lines) + "\n"


def _missing(result: StudyResult) -> str:
    return "; ".join(short_paths_in_text(line) for line in result.missing)


class TextTable(NamedTuple):
    """A table for the terminal, the report and Markdown. Missing values are dashes."""

    title: str
    columns: Sequence[str]
    rows: list[list[str]]
    caption: Sequence[str] = ()  # lines that explain the columns, without full stops

    def markdown(self) -> list[str]:
        """Return its lines in Markdown."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return ["| " + " | ".join(cell.replace("|", "\\|") for cell in x) + " |" for x in lines]


def study_tables(result: StudyResult) -> list[TextTable]:
    """Return the scores and costs, and what the attention does if there is one."""
    tables = [score_table(result), attention_table(result)]
    return [table for table in tables if table.rows]


def score_table(result: StudyResult) -> TextTable:
    """Return scores, differences to the baseline, and costs."""
    caption = [
        f"baseline: {result.baseline}",
        "95 %: half of Student's interval over seeds; one of twenty is expected to miss",
        "to baseline: taken seed by seed, each with an interval of its own",
        "params, MACs: of one crop, in use",
        "img/s: median in training and over seeds, beside whatever else the machines did",
    ]
    if result.spread is not None:
        caption[2] = (
            "to baseline: taken seed by seed; its interval is from the spread that all variants "
            f"share, {100 * result.spread.deviation:.2f} points "
            f"({result.spread.freedom} degrees of freedom)"
        )
    if result.study.paper:
        caption.append(f"paper: {result.study.paper_source}")
    rows = []
    for row in result.rows:
        first = row.trials[0] if row.trials else None
        # The median, as seeds may be of other machines.
        speeds = [t.images_per_second for t in row.trials if t.images_per_second is not None]
        is_baseline = row.variant == result.baseline
        rows.append(
            [
                row.variant,
                *_cells(row.score),
                str(len(row.trials)),
                *(("baseline", "-") if is_baseline else _cells(row.difference, sign=True)),
                _number(first.params / 1e6 if first else None, 3),
                _number(first.macs / 1e9 if first else None, 3),
                _number(median(speeds) if speeds else None, 1),
                "-" if row.paper is None else f"{row.paper:g}",
            ]
        )
    return TextTable("Results", SCORE_COLUMNS, rows, caption)


def attention_table(result: StudyResult) -> TextTable:
    """Return how the variants with a low-rank tensor use it."""
    caption = [
        "with mean A: A (of RecoNet+: Y) replaced by its mean over the scored images",
        "lost: the score minus that, seed by seed; nothing lost: A is dead",
        "spread: standard deviation over mean",
    ]
    rows = []
    for row in (row for row in result.rows if row.with_mean is not None):
        ends = [trial.trajectory[-1] for trial in row.trials if trial.trajectory]
        last = [[end[name] for end in ends if name in end] for name in LIVENESS]
        liveness = [
            _number(fmean(values) if values else None, digits)
            for values, digits in zip(last, (3, 2, 4), strict=True)
        ]
        figures = (
            _cells(row.score)[0],
            _cells(row.with_mean)[0],
            *_cells(row.lost_with_mean, sign=True),
        )
        rows.append([row.variant, *figures, *liveness])
    return TextTable("What the attention does", ATTENTION_COLUMNS, rows, caption)


def spectrum_table(result: StudyResult) -> TextTable:
    """Return the ranks in use, as means over seeds, of the variants that have some."""
    columns = [f"{title}, {part}" for _, title in SPECTRUM_FIGURES for part in PARTS]
    rows = []
    for row in result.rows:
        found = [trial.spectrum for trial in row.trials if trial.spectrum is not None]
        values = [
            f"{fmean(getattr(spectrum, figure)[part] for spectrum in found):.2f}"
            for figure, _ in (SPECTRUM_FIGURES if found else ())
            for part in PARTS
        ]
        rows += [[row.variant, *values]] if found else []
    return TextTable("Ranks in use", ("variant", *columns), rows)


def _cells(value: Estimate | None, *, sign: bool = False) -> tuple[str, str]:
    """Return a mean in per cent, and half of its interval."""
    if value is None:
        return "-", "-"
    half = "-" if value.half_width is None else f"± {100 * value.half_width:.2f}"
    return _number(100 * value.mean, 2, sign=sign), half


def _number(value: float | None, digits: int, *, sign: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+z.{digits}f}" if sign else f"{value:z.{digits}f}"  # z: no -0.00
