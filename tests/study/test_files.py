"""The files of a study: study.json, result.json, and results.json, which tells nobody's paths."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reconet.errors import DataError, ReconetError, TrainingError
from reconet.recipes import apply_overrides
from reconet.study import (
    STUDIES,
    StudyResult,
    add_results,
    conditions,
    open_study,
    read_results,
    write_results,
)
from reconet.study.trial import RESULT, lock_study, place_of_trial, read_result, write_result
from tests.study.tiny_study import COMPONENTS, study_recipe


@pytest.fixture
def file(finished: StudyResult, tmp_path: Path) -> Path:
    path = tmp_path / "results.json"
    write_results(finished.out, path)
    return path


def test_a_study_elsewhere_has_the_same_results(
    file: Path, finished: StudyResult, tmp_path: Path
) -> None:
    add_results(file, tmp_path / "other", COMPONENTS, study_recipe())
    here, there = open_study(finished.out), open_study(tmp_path / "other")
    assert [row.variant for row in there.rows] == [row.variant for row in here.rows]
    for ours, theirs in zip(here.rows, there.rows, strict=True):
        assert theirs.trials == ours.trials
        assert theirs.difference == ours.difference


def test_results_that_are_there_stay(file: Path, finished: StudyResult, tmp_path: Path) -> None:
    out = tmp_path / "other"
    add_results(file, out, COMPONENTS, study_recipe())
    values = json.loads(file.read_text())
    for trial in values["trials"]:
        trial["figures"]["miou"] = 0.125
    file.write_text(json.dumps(values))
    add_results(file, out, COMPONENTS, study_recipe())
    assert open_study(out).rows[0].trials == open_study(finished.out).rows[0].trials


@pytest.mark.parametrize(
    "change",
    [
        {"variant": "../../escape"},
        {"seed": "../../escape"},
        {"figures": {"miou": "high"}},
        {"figures": None},
    ],
)
def test_a_strangers_file_is_checked(file: Path, tmp_path: Path, change: dict[str, object]) -> None:
    values = json.loads(file.read_text())
    values["trials"][0] |= change
    file.write_text(json.dumps(values))
    with pytest.raises(ReconetError):
        add_results(file, tmp_path / "other", COMPONENTS, study_recipe())
    assert not (tmp_path / "other").exists()
    assert not list(tmp_path.parent.glob("escape*"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', "[" * 100_000])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(DataError, match="does not hold the results of a study"):
        read_results(path)
    with pytest.raises(DataError, match="cannot read"):
        read_results(tmp_path / "missing.json")


def test_another_precision_may_be_added_and_is_told(
    file: Path, finished: StudyResult, tmp_path: Path
) -> None:
    here = apply_overrides(study_recipe(), ["train.precision=bf16"])
    out = tmp_path / "other"
    add_results(file, out, COMPONENTS, here)
    trials = [trial for row in open_study(out).rows for trial in row.trials]
    assert {trial.precision for trial in trials} == {"fp32"}
    assert ", fp32" in dict(conditions(open_study(out)))["training"]
    path = place_of_trial(out, trials[0].variant, trials[0].seed)
    write_result(path, replace(trials[0], precision="bf16"))
    told = dict(conditions(open_study(out)))["training"]
    assert f"fp32 ({len(trials) - 1} trials), bf16 (1 trial)" in told


def test_results_that_tell_no_precision_have_that_of_their_recipe(
    file: Path, tmp_path: Path
) -> None:
    values = json.loads(file.read_text())
    for trial in values["trials"]:
        del trial["precision"]
    values["recipe"]["train"]["precision"] = "bf16"
    file.write_text(json.dumps(values))
    assert {trial.precision for trial in read_results(file).trials} == {"bf16"}
    add_results(file, tmp_path / "other", COMPONENTS, study_recipe())
    write_results(tmp_path / "other", tmp_path / "again.json")
    assert {trial.precision for trial in read_results(tmp_path / "again.json").trials} == {"bf16"}


def test_another_recipe_in_the_same_directory_is_an_error(tmp_path: Path) -> None:
    with lock_study(tmp_path, COMPONENTS, study_recipe()):
        pass
    changed = apply_overrides(study_recipe(), ["optim.lr=0.5", "data.workers=1"])
    with (
        pytest.raises(TrainingError, match=r"optim.lr is 0.02 there and 0.5 here"),
        lock_study(tmp_path, COMPONENTS, changed),
    ):
        pass
    with (
        pytest.raises(TrainingError, match="holds the study components"),
        lock_study(tmp_path, STUDIES["rank"], study_recipe()),
    ):
        pass
    with lock_study(tmp_path, COMPONENTS, apply_overrides(study_recipe(), ["data.workers=1"])):
        pass  # the number of workers does not change results


def test_a_damaged_result_is_explained(tmp_path: Path) -> None:
    (tmp_path / RESULT).write_text('{"format": 1}')
    with pytest.raises(TrainingError, match="damaged"):
        read_result(tmp_path)
