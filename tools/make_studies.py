"""Write the tables and figures in docs/studies/: `make studies`.

Each folder there holds a study: results.json, and the page and the figures that are made from it.
If runs/ has a study of the same name, its results are added first. To show another study, make a
folder of its name. People write docs/studies.md, which has the commands and the findings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from reconet.errors import pick
from reconet.study import (
    StudyResult,
    add_results,
    is_study,
    open_study,
    read_results,
    read_study,
    write_results,
)
from reconet.study.page import render_markdown
from reconet.study.plots import save_figures
from reconet.study.trial import RESULTS

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "studies.md"
FOLDERS = PAGE.parent / "studies"
HEADS = ("fcn", "without", "gpm", "tgm_trm", "reconet", "reconet_plus")
# The baseline and the variants of each table. By default it is one, with the study's own baseline
# and all variants. Figures are those of the first.
TABLES: Mapping[str, Sequence[tuple[str, Sequence[str]]]] = {
    "study-contexts-dev": (("reconet_plus", ()), ("without", HEADS)),
    "study-forms-dev": (("reconet_plus", ()),),
    "study-rank-dev": (("r16", ()),),
    "study-whole": (("without", ()),),
    "study-whole-start": (("without", ()),),
}


def write_study(folder: Path, runs: Path) -> None:
    """Write the page and the figures of a study, if it has results."""
    kept = folder / RESULTS
    if is_study(runs / folder.name):
        keep_results(runs / folder.name, kept)
    if not kept.is_file():
        return
    lines = [f"# {folder.name}\n"]
    for number, (baseline, names) in enumerate(TABLES.get(folder.name, [("", ())])):
        with TemporaryDirectory() as temporary:
            _add(kept, Path(temporary) / "study")
            result = open_study(Path(temporary) / "study", baseline or None)
        if number == 0:
            lines.append(
                f"{result.study.question} `make studies` writes this page from [{RESULTS}]"
                f"({RESULTS}). [docs/studies.md](../../studies.md) has the command, and what we "
                "conclude.\n"
            )
            lines.append(render_markdown(result, save_figures(result, folder)))
        else:
            title = f"## Compared with {baseline}\n"
            lines += [title, render_markdown(_choose(result, names))]
    (folder / "README.md").write_text("\n".join(lines))


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


def _choose(result: StudyResult, variants: Sequence[str]) -> StudyResult:
    rows = {row.variant: row for row in result.rows}
    chosen = tuple(pick(rows, name, "variant") for name in variants)
    seeds = tuple(sorted({trial.seed for row in chosen for trial in row.trials}))
    return replace(result, rows=chosen, seeds=seeds)


if __name__ == "__main__":
    import tools.forms  # noqa: F401  Its forms of RecoNet+ are variants of a study of the page.

    for folder in sorted(FOLDERS.iterdir()):
        write_study(folder, ROOT / "runs")
