"""Each study in docs/studies/ gets a page with its tables and figures, and keeps its results."""

import shutil
from pathlib import Path
from unittest.mock import patch

import pytest

from reconet.errors import RecipeError
from reconet.study import StudyResult
from tools import make_studies

NAME = "study-components"


@pytest.fixture
def folder(finished: StudyResult, tmp_path: Path) -> Path:
    shutil.copytree(finished.out, tmp_path / "runs" / NAME)
    folder = tmp_path / "docs" / NAME
    folder.mkdir(parents=True)
    return folder


def write(folder: Path) -> str:
    make_studies.write_study(folder, folder.parent.parent / "runs")
    return (folder / "README.md").read_text()


def test_a_study_becomes_a_page_with_tables_and_figures(folder: Path) -> None:
    made = write(folder)
    assert "| fcn |" in made
    assert "baseline: fcn." in made
    assert write(folder) == made
    for file in {*folder.iterdir()} - {folder / "README.md"}:
        assert f"]({file.name})" in made


def test_the_page_is_made_again_without_the_runs(folder: Path) -> None:
    made = write(folder)
    shutil.rmtree(folder.parent.parent / "runs")
    assert write(folder) == made


def test_results_from_elsewhere_are_kept_beside_new_ones(folder: Path) -> None:
    made = write(folder)
    shutil.rmtree(folder.parent.parent / "runs" / NAME / "tgm_trm")
    assert write(folder) == made


def test_a_second_table_has_its_own_baseline_and_chosen_variants_in_their_order(
    folder: Path,
) -> None:
    tables = (("fcn", ()), ("tgm_trm", ("tgm_trm", "fcn")))
    with patch.object(make_studies, "TABLES", {NAME: tables}):
        _, second = write(folder).split("## Compared with tgm_trm")
    assert "baseline: tgm_trm." in second
    assert 0 < second.index("\n| tgm_trm |") < second.index("\n| fcn |")
    assert "| ms_flip |" not in second
    wrong = (("fcn", ()), ("fcn", ("tgm_trn",)))
    with (
        patch.object(make_studies, "TABLES", {NAME: wrong}),
        pytest.raises(RecipeError, match="Did you mean 'tgm_trm'"),
    ):
        write(folder)


def test_a_page_without_results_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("written by hand")
    make_studies.write_study(tmp_path, tmp_path / "runs")
    assert (tmp_path / "README.md").read_text() == "written by hand"
