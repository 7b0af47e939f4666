"""A study from its plan to its report."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from reconet.cache import cache_root, check_room, free_bytes
from reconet.data import open_split
from reconet.engine import plan_features, total_steps
from reconet.errors import TrainingError, pick
from reconet.models.segmenter import build_model
from reconet.recipes.schema import Recipe
from reconet.study.results import StudyResult, collect_result
from reconet.study.scheduler import run_trials
from reconet.study.trial import (
    Trial,
    is_study,
    lock_study,
    make_trials,
    read_study,
    write_results,
)
from reconet.study.variants import STUDIES, Study, Variant, choose_baseline, choose_variants
from reconet.system.files import readable_bytes
from reconet.system.progress import SILENT, Progress
from reconet.system.run_files import BEST

HEAD = {"context", "rank", "options"}  # settings of a network that its features do not depend on
ANY_CLASSES = 2  # the stages that a network reads do not depend on their number


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
    with _open(plan, out.resolve()) as (trials, _):
        unfinished = [one for one in trials if one.network is None and not one.is_finished()]
        recipes = distinct_recipes([trial.recipe for trial in unfinished])
        plans = [plan_features(recipe, device=device, progress=progress) for recipe in recipes]
        stores = {store.directory: store for plan in plans for store in plan.stores}
        if stores:
            total = sum(store.bytes for store in stores.values())
            missing = sum(store.missing_bytes() for store in stores.values())
            progress.note(
                f"the trials share {readable_bytes(total)} of features in {cache_root()}: "
                f"{readable_bytes(missing)} are to be computed, {readable_bytes(free_bytes())} of "
                "the disk are free"
            )
            check_room(stores.values())
        for features in plans:
            features.build(progress)


def distinct_recipes(recipes: Sequence[Recipe]) -> list[Recipe]:
    """Return one recipe for each set of features that these recipes read from the cache."""
    stages: dict[str, tuple[str, ...]] = {}
    found = {}
    for recipe in recipes:
        if recipe.data.views is None:
            continue
        model, train = recipe.model, recipe.train
        network = model.model_dump_json()
        if network not in stages:  # some options of a context read more stages
            with torch.device("meta"):
                model_on_meta = build_model(recipe, ANY_CLASSES, pretrained=False)
            stages[network] = model_on_meta.stages_read
        fresh = model.weights is None and train.init_from is None  # the seed makes the backbone
        key = (
            recipe.data.model_dump_json(),
            model.model_dump_json(exclude=HEAD),
            stages[network],
            train.init_from,
            train.precision,
            train.seed if fresh else None,
        )
        found[key] = recipe
    return list(found.values())


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
    dropped: set[str] = set()
    if plan.recipe.model.frozen and not keep_networks:
        # These hold little but a backbone that all of them share, and are not scored again.
        scored_again = {variant.network_of for variant in plan.study.variants()}
        dropped = {variant.name for variant in plan.variants if variant.name not in scored_again}
    with _open(plan, out) as (trials, steps):
        run_trials(
            trials, jobs=jobs, steps=steps, device=device, progress=progress, dropped=dropped
        )
    result = collect_result(plan.study, plan.recipe, trials, out, plan.baseline)
    save_figures(result, out)
    write_page(result)
    write_results(out)
    return result


@contextmanager
def _open(plan: StudyPlan, out: Path) -> Iterator[tuple[list[Trial], int]]:
    """Check a study, and lock its directory. Yield its trials and the steps of one training."""
    trials = make_trials(plan.variants, plan.recipe, plan.seeds, out)
    steps = _check(trials)
    with lock_study(out, plan.study, plan.recipe):
        yield trials, steps


def _check(trials: Sequence[Trial]) -> int:
    """Find errors in data and settings before hours have passed. Return the steps of one trial."""
    recipe = trials[0].recipe
    data = recipe.data
    train_set = open_split(data, data.train_split)
    open_split(data, data.val_split)
    with torch.device("meta"):
        for trial in {one.variant.name: one for one in trials}.values():
            build_model(trial.recipe, len(train_set.info.classes), pretrained=False)
    for trial in trials:
        start = trial.recipe.train.init_from
        if trial.network is not None or trial.is_finished() or start is None:
            continue
        if is_study(start.parent.parent) and not (start / BEST).is_file():
            raise TrainingError(
                f"{start} has no network for {trial.name} to start from; run its study with this "
                "variant, this seed and --keep-networks."
            )
    return total_steps(recipe, len(train_set))


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
