"""docs/studies.md gets the tables of the studies that are on this machine, and keeps the others."""

import shutil
from pathlib import Path

import pytest

from reconet.errors import RecipeError
from reconet.study import StudyResult
from tools.make_studies import PAGE, PLACE, page

EMPTY = "## Components\n\n<!-- study runs/study-components{} -->\n<!-- end -->\nafter\n"


def test_a_study_becomes_a_table_and_figures(finished: StudyResult, tmp_path: Path) -> None:
    shutil.copytree(finished.out, tmp_path / "runs" / "study-components")
    made = page(EMPTY.format(""), tmp_path)
    assert "| fcn |" in made
    assert "baseline: fcn." in made
    assert made.endswith("<!-- end -->\nafter\n")
    assert page(made, tmp_path) == made
    for file in (tmp_path / "docs" / "studies" / "study-components").iterdir():
        assert f"](studies/study-components/{file.name})" in made
    assert "baseline: tgm_trm." in page(EMPTY.format(" baseline=tgm_trm"), tmp_path)


def test_the_page_is_made_again_without_the_runs(finished: StudyResult, tmp_path: Path) -> None:
    shutil.copytree(finished.out, tmp_path / "runs" / "study-components")
    made = page(EMPTY.format(""), tmp_path)
    shutil.rmtree(tmp_path / "runs")
    assert page(EMPTY.format(""), tmp_path) == made


def test_the_page_shows_chosen_variants_in_their_order(
    finished: StudyResult, tmp_path: Path
) -> None:
    shutil.copytree(finished.out, tmp_path / "runs" / "study-components")
    made = page(EMPTY.format(" baseline=tgm_trm variants=tgm_trm,fcn"), tmp_path)
    assert 0 < made.index("\n| tgm_trm |") < made.index("\n| fcn |")
    assert "| ms_flip |" not in made
    assert "](studies/study-components/to_tgm_trm/components-scores.png)" in made


def test_a_variant_that_is_not_there_is_an_error(finished: StudyResult, tmp_path: Path) -> None:
    shutil.copytree(finished.out, tmp_path / "runs" / "study-components")
    with pytest.raises(RecipeError, match="Did you mean 'tgm_trm'"):
        page(EMPTY.format(" baseline=fcn variants=fcn,tgm_trn"), tmp_path)


def test_results_from_elsewhere_are_kept_beside_new_ones(
    finished: StudyResult, tmp_path: Path
) -> None:
    directory = tmp_path / "runs" / "study-components"
    shutil.copytree(finished.out, directory)
    made = page(EMPTY.format(""), tmp_path)
    shutil.rmtree(directory / "tgm_trm")
    assert page(EMPTY.format(""), tmp_path) == made


def test_results_of_another_machine_are_kept(tmp_path: Path) -> None:
    text = EMPTY.format("").replace("<!-- end", "| variant | 1.0 |\n<!-- end")
    assert page(text, tmp_path) == text


def test_no_study_of_the_page_is_empty() -> None:
    matches = list(PLACE.finditer(PAGE.read_text()))
    assert matches
    for match in matches:
        assert match["old"].strip(), match["study"]
