"""A trial is trained once, scored at its last step, and looked at."""

from pathlib import Path

import pytest

from reconet.engine import read_log
from reconet.recipes.overrides import apply_overrides
from reconet.study.result import StudyResult
from reconet.study.run_trial import run_trial
from reconet.study.trial import read_result
from tests.study.tiny_study import trials_in


def test_scoring_again_trains_nothing_and_looks_at_the_same_network(finished: StudyResult) -> None:
    rows = {row.variant: row for row in finished.rows}
    again = rows["ms_flip"].trials[0]
    assert again.images_per_second is None
    assert again.params == rows["aux"].trials[0].params
    assert "with mirror images" in again.protocol
    assert not (finished.out / "ms_flip" / "seed0" / "log.jsonl").exists()


@pytest.mark.parametrize("relative_to", ["base_size", "original"])
def test_the_score_is_that_of_the_last_step_by_the_protocol_of_the_recipe(
    tmp_path: Path, relative_to: str
) -> None:
    trial = trials_in(tmp_path, "fcn", seeds=1)[0]
    changes = ["eval.mode=whole", f"eval.relative_to={relative_to}", "data.base_size=48"]
    recipe = apply_overrides(trial.recipe, changes)
    result = run_trial(recipe, trial.directory, variant="fcn", network=None, device="cpu")
    assert result is not None
    last = [line for line in read_log(trial.directory) if line["kind"] == "val"][-1]
    assert last["step"] == 4
    # A training scores images of base_size, and these are larger.
    assert (result.figures["miou"] == last["miou"]) == (relative_to == "base_size")
    assert ("long side of 48" in result.protocol) == (relative_to == "base_size")
    assert result == read_result(trial.directory)


def test_liveness_and_ranks_of_the_attention_are_there(finished: StudyResult) -> None:
    rows = {row.variant: row for row in finished.rows}
    trial = rows["tgm_trm"].trials[0]
    assert [line["step"] for line in trial.trajectory] == [2, 4]
    assert all(line["attention_spread"] > 0 for line in trial.trajectory)
    assert trial.spectrum is not None
    assert trial.spectrum.rank == 4
    assert rows["fcn"].trials[0].spectrum is None
