"""Write the tables, conditions and figures of docs/studies.md: `make studies`.

A study stands between `<!-- study DIRECTORY -->` and `<!-- end -->`. The directory is where the
study was written, e.g. runs/study-rank-dev. If it is on this machine, its results are added to
those in docs/studies/. The part between the marks is made from these. A study without any stays as
it is. Behind the directory may stand the variant that the others are compared with, and which
variants to show: `baseline=without variants=without,gpm`. People write the text around the marks,
and the command of the study.
"""

import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from reconet.study.trial import RESULTS, is_study, read_study

from reconet.errors import pick
from reconet.study import StudyResult, add_results, open_study, read_results, write_results
from reconet.study.page import render_markdown
from reconet.study.plots import save_figures

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "studies.md"
PLACE = re.compile(
    r"(?P<head><!-- study (?P<study>\S+)(?: baseline=(?P<baseline>\w+))?"
    r"(?: variants=(?P<variants>[\w,]+))? -->\n)(?P<old>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)


def page(text: str, root: Path = ROOT) -> str:
    return PLACE.sub(lambda match: _part(match, root), text)


def _part(match: re.Match[str], root: Path) -> str:
    directory = root / match["study"]
    folder = root / "docs" / "studies" / directory.name
    kept = folder / RESULTS
    if is_study(directory):
        keep_results(directory, kept)
    if not kept.is_file():
        return match[0]
    result = _open(kept, match["baseline"])
    if match["variants"]:
        result = _choose(result, match["variants"].split(","))
        folder /= f"to_{result.baseline}"
    text = render_markdown(result, save_figures(result, folder))
    link = f"[The results of each training](studies/{directory.name}/{RESULTS})"
    return f"{match['head']}\n{text}\n{link}\n\n{match['end']}"


def keep_results(directory: Path, kept: Path) -> None:
    """Write the results of a study to a file, beside those that it has from elsewhere."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        here, union = Path(folder) / RESULTS, Path(folder) / "union"
        write_results(directory, here)
        for path in filter(Path.is_file, (here, kept)):
            _add(path, union)
        write_results(union, kept)


def _add(path: Path, out: Path) -> None:
    shared = read_results(path)
    recipe = read_study(out)[1] if is_study(out) else shared.recipe
    add_results(path, out, shared.study, recipe)


def _open(path: Path, baseline: str | None) -> StudyResult:
    with TemporaryDirectory() as folder:
        _add(path, Path(folder) / "study")
        return open_study(Path(folder) / "study", baseline)


def _choose(result: StudyResult, variants: list[str]) -> StudyResult:
    rows = {row.variant: row for row in result.rows}
    chosen = tuple(pick(rows, name, "variant") for name in variants)
    seeds = tuple(sorted({trial.seed for row in chosen for trial in row.trials}))
    return replace(result, rows=chosen, seeds=seeds)


if __name__ == "__main__":
    import tools.forms  # noqa: F401  Its forms of RecoNet+ are variants of a study of the page.

    PAGE.write_text(page(PAGE.read_text()))
