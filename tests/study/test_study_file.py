"""The directory of a study belongs to one study on one recipe."""

import shutil
from pathlib import Path

import pytest

from reconet.errors import RecipeError, TrainingError
from reconet.recipes.overrides import apply_overrides
from reconet.study import StudyResult, open_study
from reconet.study.study_file import lock_study
from reconet.study.variants import STUDIES
from tests.study.tiny_study import COMPONENTS, study_recipe


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


def test_a_directory_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").touch()
    with (
        pytest.raises(TrainingError, match="holds no study"),
        lock_study(tmp_path, COMPONENTS, study_recipe()),
    ):
        pass


def test_a_study_with_other_seeds_for_each_variant_is_opened_as_it_is(
    finished: StudyResult, tmp_path: Path
) -> None:
    out = tmp_path / "part"
    shutil.copytree(finished.out, out)
    shutil.rmtree(out / "tgm_trm" / "seed1")
    result = open_study(out)
    assert {row.variant: len(row.trials) for row in result.rows}["tgm_trm"] == 1
    assert not result.missing


def test_a_variant_of_code_that_is_not_imported_is_named(
    finished: StudyResult, tmp_path: Path
) -> None:
    out = tmp_path / "own"
    shutil.copytree(finished.out, out)
    (out / "fcn").rename(out / "fcm")
    with pytest.raises(RecipeError, match="fcm"):
        open_study(out)
