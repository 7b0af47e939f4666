"""Trials on cached features share them: they are there before the first trial starts."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from reconet.cache.build import EntryWriter
from reconet.errors import OutputError
from reconet.recipes import Recipe, apply_overrides
from reconet.study import (
    StudyPlan,
    Trial,
    make_plan,
    make_trials,
    prepare_study,
    run_study,
    run_trials,
)
from reconet.study.run_trial import run_trial
from reconet.study.study import distinct_recipes
from reconet.system.progress import SILENT
from reconet.system.user_cache import ROOT_VARIABLE
from tests.study.tiny_study import study_recipe

FROZEN = [
    *("model.frozen=true", "model.project=8", "model.aux=false"),
    *("data.views=2", "eval.mode=whole"),
]


class Disk(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "cache"))


def frozen(*settings: str) -> Recipe:
    return apply_overrides(study_recipe(), [*FROZEN, *settings])


def plan(variants: str = "fcn,plus", seeds: int = 1, study: str = "components") -> StudyPlan:
    names = variants.split(",")
    return make_plan(study, frozen(), seeds=seeds, variants=names, quick=False)


def trials_of(plan: StudyPlan, out: Path) -> list[Trial]:
    return make_trials(plan.variants, plan.recipe, plan.seeds, out)


def run_here(trial: Trial) -> None:
    name = trial.variant.name
    run_trial(trial.recipe, trial.directory, variant=name, network=None, device="cpu")


def test_trials_that_differ_only_after_the_backbone_share_their_features() -> None:
    base = frozen("model.weights=some.safetensors")
    heads = ["model.context=fcn", "model.context=reconet_plus", "model.rank=2", "train.seed=7"]
    assert len(distinct_recipes([base, *(apply_overrides(base, [h]) for h in heads)])) == 1
    others = ["model.context=deeplabv3plus", "model.aux=true", "data.view_seed=1", "data.views=3"]
    assert len(distinct_recipes([base, *(apply_overrides(base, [o]) for o in others)])) == 5
    for name in ("encnet", "cfnet"):
        plain, lateral = (
            apply_overrides(base, [f"model.context={name}", f"model.options.lateral={value}"])
            for value in ("false", "true")
        )
        assert distinct_recipes([base, plain]) == [plain]
        assert len(distinct_recipes([base, plain, lateral])) == 2  # it reads c2 and c3 too
    fresh = [apply_overrides(frozen(), [f"train.seed={seed}"]) for seed in (0, 1)]
    assert len(distinct_recipes(fresh)) == 2  # each seed makes a backbone of its own
    assert distinct_recipes([study_recipe()]) == []


def test_no_trial_computes_features_after_the_preparation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = plan("fcn,plus")
    prepare_study(study, tmp_path / "out", device="cpu")

    def refuse(self: EntryWriter, index: int) -> int:
        raise AssertionError(f"entry {index} was computed by a trial")

    monkeypatch.setattr(EntryWriter, "__call__", refuse)
    for trial in trials_of(study, tmp_path / "out"):
        run_here(trial)
        assert trial.is_finished()


def test_a_disk_without_room_for_all_stores_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Disk(10**9, 10**9, 10**3))
    with pytest.raises(OutputError, match=r"the features need .* has .* free"):
        prepare_study(plan("fcn"), tmp_path / "out", device="cpu")


def test_networks_go_once_they_are_scored_and_the_report_is_still_made(tmp_path: Path) -> None:
    study, out = plan("fcn,plus"), tmp_path / "out"
    trials = trials_of(study, out)
    prepare_study(study, out, device="cpu")
    for trial in trials:
        run_here(trial)
    run_study(study, out, jobs=1, device="cpu", keep_networks=True)
    assert all((trial.directory / "last.pt").is_file() for trial in trials)
    result = run_study(study, out, jobs=1, device="cpu")  # what an earlier start has left
    assert not [*out.rglob("last.pt"), *out.rglob("best.safetensors")]
    assert not result.missing
    assert (out / "report.html").is_file()
    [plus] = [row for row in result.rows if row.variant == "plus"]
    assert plus.with_mean is not None


def test_jobs_share_the_gpus_that_the_study_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []

    class Ended:
        returncode, stdin = 1, None

        def __init__(self, *_: object, env: dict[str, str], **__: object) -> None:
            given.append(env["CUDA_VISIBLE_DEVICES"])

        def poll(self) -> int:
            return 1

    monkeypatch.setattr(subprocess, "Popen", Ended)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for visible, expected in ((None, "010"), ("5,GPU-1f", ["5", "GPU-1f", "5"])):
        given.clear()
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        trials = trials_of(plan("fcn,plus,plain"), tmp_path / "out")
        run_trials(trials, jobs=3, steps=4, device="cuda", progress=SILENT)
        assert given == list(expected)
