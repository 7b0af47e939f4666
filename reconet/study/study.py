"""A study from its plan to its report."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from reconet.data import open_split
from reconet.engine import total_steps
from reconet.errors import TrainingError, pick
from reconet.models.segmenter import build_model
from reconet.recipes.schema import Recipe
from reconet.recipes.storage import read_recipe
from reconet.study.features import build_features
from reconet.study.result import StudyResult, collect_result
from reconet.study.results_file import write_results
from reconet.study.scheduler import run_trials
from reconet.study.study_file import check_settings, is_study, lock_study, read_study
from reconet.study.trial import Trial, make_trials
from reconet.study.variants import STUDIES, Study, Variant, choose_baseline, choose_variants
from reconet.system.progress import SILENT, Progress
from reconet.system.run_files import BEST


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """What a study will run: some of its variants on a recipe, with some seeds."""

    study: Study
    variants: tuple[Variant, ...]
    recipe: Recipe
    seeds: tuple[int, ...]
    baseline: str


def make_plan(
    name: str,
    recipe: Recipe,
    *,
    seeds: int | Sequence[int] | None,
    variants: Sequence[str] | None,
    quick: bool,
    baseline: str | None = None,
) -> StudyPlan:
    """Plan a study. What is None comes from the study's own defaults.

    A single number of `seeds` says how many, counted from train.seed.
    """
    study = pick(STUDIES, name, "study")
    if seeds is None:
        seeds = study.quick_seeds if quick else study.seeds
    if isinstance(seeds, int):
        seeds = range(recipe.train.seed, recipe.train.seed + seeds)
    cached = recipe.data.views is not None
    chosen = choose_variants(study, variants, quick=quick, on_features=cached)
    return StudyPlan(
        study=study,
        variants=chosen,
        recipe=recipe,
        seeds=tuple(seeds),
        baseline=choose_baseline(study, chosen, baseline),
    )


def prepare_study(
    plan: StudyPlan, out: Path, *, device: str = "auto", progress: Progress = SILENT
) -> None:
    """Check a study, and compute the cached features that its trials share.

    Without this the first trials would compute them, while the others wait.
    """
    out = out.resolve()
    trials = make_trials(plan.variants, plan.recipe, plan.seeds, out)
    _check(trials)
    with lock_study(out, plan.study, plan.recipe):
        _check_finished(trials)
        build_features(trials, device=device, progress=progress)


def run_study(
    plan: StudyPlan,
    out: Path,
    *,
    jobs: int,
    device: str = "auto",
    progress: Progress = SILENT,
    keep_networks: bool = False,
) -> StudyResult:
    """Run the trials that are missing, and write figures and a report of all of them.

    Networks with a frozen backbone are deleted once they are scored, unless `keep_networks`.
    """
    # Imported late: every trial's process imports this package, and matplotlib takes long.
    from reconet.study.page import write_page
    from reconet.study.plots import save_figures

    out = out.resolve()
    trials = make_trials(plan.variants, plan.recipe, plan.seeds, out)
    steps = _check(trials)
    dropped = set() if keep_networks else _dropped(plan)
    with lock_study(out, plan.study, plan.recipe):
        _check_finished(trials)
        run_trials(
            trials, jobs=jobs, steps=steps, device=device, progress=progress, dropped=dropped
        )
    result = collect_result(plan.study, plan.recipe, trials, out, plan.baseline)
    save_figures(result, out)
    write_page(result)
    write_results(out)
    return result


def _check(trials: Sequence[Trial]) -> int:
    """Find errors in data and settings before hours have passed. Return the steps of one trial."""
    recipe = trials[0].recipe
    data = recipe.data
    train_set = open_split(data, data.train_split)
    open_split(data, data.val_split)
    with torch.device("meta"):
        for trial in {trial.variant.name: trial for trial in trials}.values():
            build_model(trial.recipe, len(train_set.info.classes), pretrained=False)
    _check_starts(trials)
    return total_steps(recipe, len(train_set))


def _check_starts(trials: Sequence[Trial]) -> None:
    """Raise an error if a trial starts from one of another study that left no network."""
    for trial in trials:
        start = trial.recipe.train.init_from
        if trial.network is not None or trial.is_finished() or start is None:
            continue
        if is_study(start.parent.parent) and not (start / BEST).is_file():
            raise TrainingError(
                f"{start} has no network for {trial.name} to start from; run its study with this "
                "variant, this seed and --keep-networks."
            )


def _check_finished(trials: Sequence[Trial]) -> None:
    """Raise an error if a finished trial was trained with other settings than it would be now."""
    for trial in trials:
        if trial.is_finished() and trial.recipe_file.is_file():
            check_settings(trial.directory, read_recipe(trial.recipe_file), trial.recipe)


def _dropped(plan: StudyPlan) -> set[str]:
    """Name the variants whose networks hold little but a backbone that all of them share."""
    scored_again = {variant.network_of for variant in plan.study.variants()}
    names = {variant.name for variant in plan.variants} - scored_again
    return names if plan.recipe.model.frozen else set()


def open_study(out: Path, baseline: str | None = None) -> StudyResult:
    """Collect all results in the directory of a study, without running anything.

    Variants may have different seeds. Raises an error if it holds a variant that is not known here.
    """
    out = out.resolve()
    name, recipe = read_study(out)
    study = pick(STUDIES, name, "study")
    known = {variant.name: variant for variant in study.variants()}
    runs = [path for path in out.glob("*/seed*") if path.is_dir()]
    seeds = {int(run.name.removeprefix("seed")) for run in runs}
    there = {run.parent.name for run in runs}
    for unknown in sorted(there - set(known)):
        pick(known, unknown, f"variant of the study {name}, in {out}:")
    variants = [variant for variant in known.values() if variant.name in there]
    trials = make_trials(variants, recipe, sorted(seeds), out)
    trials = [trial for trial in trials if trial.directory.is_dir()]
    return collect_result(study, recipe, trials, out, baseline)


def default_jobs() -> int:
    """Return one job for each GPU, or else for each core.

    Single-threaded trainings side by side make better use of few cores than one after the other.
    """
    return torch.cuda.device_count() or os.cpu_count() or 1
