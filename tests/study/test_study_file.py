"""The directory of a study belongs to one study on one recipe."""

from pathlib import Path

import pytest

from reconet.errors import TrainingError
from reconet.recipes.overrides import apply_overrides
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
