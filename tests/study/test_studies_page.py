"""The commands of docs/studies.md name what exists, and its figures are those of the results."""

import importlib
import itertools
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from reconet import CONTEXTS
from reconet.recipes import apply_overrides, find_recipe
from reconet.study import (
    Estimate,
    StudyResult,
    common_spread,
    difference,
    estimate,
    make_plan,
    read_results,
)
from tools import make_studies
from tools.make_studies import FOLDERS, PAGE, write_study

PAGES = sorted(FOLDERS.glob("*/README.md"))
RESULTS = sorted(FOLDERS.glob("*/results.json"))
NO_COMMAND = {"study-project-frozen"}  # an earlier length and precision of study-project-start
ESTIMATE = re.compile(r"[+-]?\d+\.\d\d ± \d+\.\d\d")
CELLS = re.compile(r"([+-]\d+\.\d\d) \| (± \d+\.\d\d)")
# Of older trainings, before results were kept: on val, and of masks from the map.
NOT_KEPT = {"+0.82 ± 0.50", "+0.88 ± 0.65", "+0.79 ± 0.42"}
COMMAND = re.compile(r"^reconet study (\w+) (.*--out (\S+).*)$", re.M)


@pytest.fixture(autouse=True)
def _forms() -> Iterator[None]:
    with patch.dict(CONTEXTS):
        sys.modules.pop("tools.forms", None)
        importlib.import_module("tools.forms")
        yield


def test_every_study_of_the_page_has_a_command_that_plans_it() -> None:
    text = PAGE.read_text()
    planned: dict[str, set[str]] = {}
    for name, rest, out in COMMAND.findall(expand(text)):
        words = shlex.split(rest)
        settings = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
        options = dict(itertools.pairwise(words))
        variants = options.get("--variants")
        plan = make_plan(
            name,
            apply_overrides(find_recipe(options.get("--recipe", "scenes/study")), settings),
            seeds=1,
            variants=variants.split(",") if variants else None,
            quick=False,
            baseline=options.get("--baseline"),
        )
        planned.setdefault(out, set()).update(variant.name for variant in plan.variants)
    for path in RESULTS:
        if path.parent.name not in NO_COMMAND:
            trained = {trial.variant for trial in read_results(path).trials}
            assert trained <= planned[f"runs/{path.parent.name}"], path


def test_every_study_has_a_page_with_its_figures_that_is_linked() -> None:
    text = PAGE.read_text()
    assert {path.parent for path in RESULTS} <= {path.parent for path in PAGES}
    for page in PAGES:
        assert f"(studies/{page.parent.name}/README.md)" in text
        linked = re.findall(r"\]\(([^)]+)\)", page.read_text())
        assert all((page.parent / link).is_file() for link in linked), page
        assert {path.name for path in page.parent.glob("*.png")} <= set(linked)


def expand(text: str) -> str:
    """Join continued lines, and put in the variables that the page sets."""
    text = text.replace("\\\n", " ")
    variables: dict[str, str] = {}
    for name, value in re.findall(r'^([A-Z]+)="(.*)"$', text, re.M):
        variables[name] = fill(value, variables)
    return fill(text, variables)


def fill(text: str, variables: dict[str, str]) -> str:
    return re.sub(r"\$([A-Z]+)\b", lambda match: variables.get(match[1], match[0]), text)


def test_figures_with_an_interval_are_those_of_the_results() -> None:
    text = PAGE.read_text()
    known = {figure for path in RESULTS for figure in estimates(path)} | NOT_KEPT
    for page in PAGES:
        known |= {" ".join(cells) for cells in CELLS.findall(page.read_text())}
    told = set(ESTIMATE.findall(text))
    assert told
    assert told <= known, told - known


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.parent.name)
def test_the_table_of_a_study_is_that_of_its_results(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / path.parent.name
    folder.mkdir()
    shutil.copy(path, folder)
    with patch("tools.make_studies.save_figures", lambda result, folder: []):
        write_study(folder, tmp_path)
    made = (folder / "README.md").read_text().split("\n")
    assert set(made) <= set((path.parent / "README.md").read_text().split("\n")), "make studies"


def estimates(path: Path) -> Iterator[str]:
    """Write all differences between variants, and what each loses with the mean tensor."""
    trials = read_results(path).trials
    scores: dict[str, dict[int, float]] = {}
    lost: dict[str, list[float]] = {}
    for trial in trials:
        scores.setdefault(trial.variant, {})[trial.seed] = trial.figures["miou"]
        if trial.miou_with_mean is not None:
            lost.setdefault(trial.variant, []).append(trial.figures["miou"] - trial.miou_with_mean)
    spread = common_spread(scores)
    for one, other in itertools.permutations(scores.values(), 2):
        yield written(difference(one, other, spread), "+")
    for values in lost.values():
        yield written(estimate(values), "")


def written(value: Estimate | None, sign: str) -> str:
    if value is None or value.half_width is None:
        return ""
    return f"{100 * value.mean:{sign}z.2f} ± {100 * value.half_width:.2f}"


NAME = "study-components"


@pytest.fixture
def folder(finished: StudyResult, tmp_path: Path) -> Path:
    shutil.copytree(finished.out, tmp_path / "runs" / NAME)
    folder = tmp_path / "docs" / NAME
    folder.mkdir(parents=True)
    return folder


def write(folder: Path) -> str:
    write_study(folder, folder.parent.parent / "runs")
    return (folder / "README.md").read_text()


def test_a_study_becomes_a_page_with_tables_and_figures(folder: Path) -> None:
    made = write(folder)
    assert "| fcn |" in made
    assert "baseline: fcn." in made
    assert write(folder) == made
    for file in {*folder.iterdir()} - {folder / "README.md"}:
        assert f"]({file.name})" in made


def test_differences_may_be_to_another_baseline(folder: Path) -> None:
    with patch.object(make_studies, "BASELINES", {NAME: "tgm_trm"}):
        assert "baseline: tgm_trm." in write(folder)
