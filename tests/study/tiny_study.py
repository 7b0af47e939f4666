"""A study on tiny networks, run in this process, and the command that runs it."""

from pathlib import Path

from reconet.recipes import Recipe
from reconet.study import (
    STUDIES,
    StudyResult,
    Trial,
    choose_variants,
    collect_result,
    lock_study,
    make_trials,
)
from reconet.study.run_trial import run_trial
from tests.factories import tiny_recipe

SETTINGS = [
    "data.options.train=8",
    "data.options.val=3",
    "train.steps=4",
    "train.save_every=1",
    "train.eval_every=2",
    "train.log_every=1",
    "train.batch=2",
    "train.deterministic=true",
]
COMPONENTS = STUDIES["components"]


def study_recipe() -> Recipe:
    return tiny_recipe(*SETTINGS)


def trials_in(out: Path, names: str, seeds: int = 2) -> list[Trial]:
    """Make the trials of some variants of the components study."""
    variants = choose_variants(COMPONENTS, names.split(","), quick=False)
    return make_trials(variants, study_recipe(), range(seeds), out)


def run_here(trials: list[Trial], out: Path) -> StudyResult:
    """Run trials in this process, one after the other."""
    with lock_study(out, COMPONENTS, study_recipe()):
        for trial in trials:
            run_trial(
                trial.recipe,
                trial.directory,
                variant=trial.variant.name,
                network=trial.network,
                device="cpu",
            )
    return collect_result(COMPONENTS, study_recipe(), trials, out)


def command(out: Path, *more: str, seeds: int = 1) -> list[str]:
    """Return the words after `reconet` that run two variants of the components study."""
    words = ["study", "components", "--recipe=scenes/tiny", "--variants=fcn,tgm_trm"]
    words += [f"--seeds={seeds}", f"--out={out}", "--device=cpu", "--jobs=1"]
    return [*words, *(f"--set={setting}" for setting in SETTINGS), *more]
