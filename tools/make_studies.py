"""Write the tables and figures in docs/studies/: `make studies`.

Each folder there holds a study: results.json, and the page and the figures that are made from it.
If runs/ has a study of the same name, its results are added first. To show another study, make a
folder of its name. People write docs/studies.md, which has the commands and the findings.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from reconet.study import (
    StudyResult,
    add_results,
    is_study,
    open_study,
    read_results,
    read_study,
    write_results,
)
from reconet.study.page import TextTable, spectrum_table, study_tables
from reconet.study.plots import save_figures
from reconet.study.results import conditions
from reconet.study.trial import RESULTS

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "studies.md"
FOLDERS = PAGE.parent / "studies"
WITH_INTERVAL = ("to baseline", "lost")
INTRODUCTION = """
{question}
[docs/studies.md](../../studies.md) says how to read this page.
`make studies` writes it from [results.json](results.json).
"""
# By default differences are to the study's own baseline.
BASELINES = {
    "study-contexts-dev": "reconet_plus",
    "study-forms-dev": "reconet_plus",
    "study-rank-dev": "r16",
    "study-whole": "without",
    "study-whole-start": "without",
}


def write_study(folder: Path, runs: Path) -> None:
    """Write the page and the figures of a study, if it has results."""
    kept = folder / RESULTS
    if is_study(runs / folder.name):
        keep_results(runs / folder.name, kept)
    if not kept.is_file():
        return
    with TemporaryDirectory() as temporary:
        _add(kept, Path(temporary) / "study")
        result = open_study(Path(temporary) / "study", BASELINES.get(folder.name))
    text = f"# {folder.name}\n" + INTRODUCTION.format(question=result.study.question)
    text += tables(result) + measured(result)
    text += "".join(f"\n![{path.stem}]({path.name})\n" for path in save_figures(result, folder))
    (folder / "README.md").write_text(text)


def tables(result: StudyResult) -> str:
    """Return the scores, and what the attention does if there is one, in few columns."""
    scores, *attention = study_tables(result)
    text = f"\nThe baseline: {result.baseline}.\n"
    text += _markdown(scores, ("variant", "mIoU %", "seeds", "to baseline", "img/s"))
    for table in attention:
        text += _markdown(table, ("variant", "with mean A %", "lost", "eff. rank"))
    ranks = spectrum_table(result)
    if result.study.name == "rank" and ranks.rows:
        text += _markdown(ranks, [name for name in ranks.columns if "%" not in name])
    return text


def measured(result: StudyResult) -> str:
    """Return how the study was done, as a list."""
    kept = ("trained on", "scored on", "training", "seeds")
    lines = [
        f"- {name}: {value.split(';')[0]}" for name, value in conditions(result) if name in kept
    ]
    return "\n" + "\n".join(lines) + "\n"


def _markdown(table: TextTable, names: Sequence[str]) -> str:
    """Return chosen columns. Differences come with their intervals, which stand right of them."""
    places = []
    for place in map(table.columns.index, names):
        places += [place, place + 1] if table.columns[place] in WITH_INTERVAL else [place]
    rows = [[cells[place] for place in places] for cells in (table.columns, *table.rows)]
    rows.insert(1, ["---"] * len(places))
    return "\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def keep_results(directory: Path, kept: Path) -> None:
    """Write the results of a study to a file, beside those that it has from elsewhere."""
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


if __name__ == "__main__":
    import tools.forms  # noqa: F401  Its forms of RecoNet+ are variants of a study of the page.

    for folder in sorted(FOLDERS.iterdir()):
        write_study(folder, ROOT / "runs")
