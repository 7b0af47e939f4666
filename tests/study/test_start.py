"""A study whose trials start from the networks of another study."""

import shutil
from pathlib import Path

import pytest
import torch

from reconet.cli import main
from reconet.engine import run_weights
from reconet.recipes import apply_overrides
from reconet.study import StudyResult
from reconet.study.trial import Trial, make_trials
from reconet.study.variants import choose_variants
from reconet.system.run_files import BEST
from tests.study.tiny_study import COMPONENTS, command, study_recipe

STILL = ["--set=optim.lr=1e-12", "--set=optim.weight_decay=0", "--set=train.eval_every=4"]


def trials_from(start: Path, out: Path) -> list[Trial]:
    base = apply_overrides(study_recipe(), [f"train.init_from={start}"])
    variants = choose_variants(COMPONENTS, ["fcn", "tgm_trm"], quick=False)
    return make_trials(variants, base, [0, 1], out)


def test_each_trial_starts_from_its_own_variant_and_seed(
    finished: StudyResult, tmp_path: Path
) -> None:
    starts = [trial.recipe.train.init_from for trial in trials_from(finished.out, tmp_path)]
    names = ["fcn/seed0", "tgm_trm/seed0", "fcn/seed1", "tgm_trm/seed1"]
    assert starts == [finished.out.resolve() / name for name in names]


def test_all_trials_start_from_the_same_run_if_it_is_no_study(
    finished: StudyResult, tmp_path: Path
) -> None:
    run = finished.out / "fcn" / "seed0"
    assert {trial.recipe.train.init_from for trial in trials_from(run, tmp_path)} == {run}


def test_a_training_that_hardly_moves_ends_with_the_weights_of_the_other_study(
    finished: StudyResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "again"
    assert main([*command(out, *STILL), f"--set=train.init_from={finished.out}"]) == 0
    assert f"weights from {finished.out.name}" in capsys.readouterr().out
    for name in ("fcn", "tgm_trm"):
        before = run_weights(finished.out / name / "seed0" / BEST)
        after = run_weights(out / name / "seed0" / BEST)
        weight = "classify.weight"
        assert torch.equal(after[weight], before[weight])
    left, right = (run_weights(out / name / "seed0" / BEST) for name in ("fcn", "tgm_trm"))
    assert not torch.equal(left[weight], right[weight])


def test_a_study_without_networks_is_one_line(
    finished: StudyResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start, out = tmp_path / "start", tmp_path / "out"
    start.mkdir()
    shutil.copy(finished.out / "study.json", start)
    assert main([*command(out), f"--set=train.init_from={start}"]) == 2
    printed = capsys.readouterr().err
    assert "has no network for fcn seed 0 to start from" in printed
    assert "--keep-networks" in printed
    assert not out.exists()
