"""A study from its plan to its report."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from reconet.data import open_split
from reconet.engine import total_steps
from reconet.errors import pick
from reconet.models.segmenter import build_model
from reconet.recipes.schema import Recipe
from reconet.study.result import StudyResult, collect_result
from reconet.study.scheduler import run_trials
from reconet.study.study_file import lock_study, read_study
from reconet.study.trial import Trial, make_trials
from reconet.study.variants import STUDIES, Study, Variant, choose_variants
from reconet.system.progress import SILENT, Progress


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """What a study will run: some of its variants on a recipe, with some seeds."""

    study: Study
    variants: tuple[Variant, ...]
    recipe: Recipe
    seeds: tuple[int, ...]


def make_plan(
    name: str, recipe: Recipe, *, seeds: int | None, variants: Sequence[str] | None, quick: bool
) -> StudyPlan:
    """Plan a study. What is None comes from the study's own defaults."""
    study = pick(STUDIES, name, "study")
    count = seeds or (study.quick_seeds if quick else study.seeds)
    return StudyPlan(
        study=study,
        variants=choose_variants(study, variants, quick=quick),
        recipe=recipe,
        seeds=tuple(range(recipe.train.seed, recipe.train.seed + count)),
    )


def run_study(
    plan: StudyPlan, out: Path, *, jobs: int, device: str = "auto", progress: Progress = SILENT
) -> StudyResult:
    """Run the trials that are missing, and write figures and a report of all that are there."""
    # Imported late: every trial's process imports this package, and matplotlib takes long.
    from reconet.study.page import write_page
    from reconet.study.plots import save_figures

    out = out.resolve()
    trials = make_trials(plan.variants, plan.recipe, plan.seeds, out)
    steps = _check(trials)
    with lock_study(out, plan.study, plan.recipe):
        run_trials(trials, jobs=jobs, steps=steps, device=device, progress=progress)
    result = collect_result(plan.study, plan.recipe, trials, out)
    save_figures(result, out)
    write_page(result)
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
    return total_steps(recipe, len(train_set))


def open_study(out: Path) -> StudyResult:
    """Collect all results in the directory of a study, without running anything."""
    out = out.resolve()
    name, recipe = read_study(out)
    study = pick(STUDIES, name, "study")
    names = {path.name for path in out.iterdir() if path.is_dir()}
    variants = tuple(variant for variant in study.variants() if variant.name in names)
    runs = [path for variant in variants for path in (out / variant.name).glob("seed*")]
    seeds = sorted({int(path.name.removeprefix("seed")) for path in runs if path.is_dir()})
    return collect_result(study, recipe, make_trials(variants, recipe, seeds, out), out)


def default_jobs() -> int:
    """Return one job for each GPU, or else for each core.

    Single-threaded trainings side by side make better use of few cores than one after the other.
    """
    return torch.cuda.device_count() or os.cpu_count() or 1
