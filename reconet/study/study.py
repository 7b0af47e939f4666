"""Plan a study, run its trials side by side, and collect what they found.

Each trial runs in a process of its own. A finished trial is not run again. An unfinished one
resumes from its checkpoint. A trial that fails leaves failure.json and does not stop the others.
The next start tries it again.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from reconet.cache import cache_root, check_room, free_bytes
from reconet.data import open_split
from reconet.engine import plan_features, total_steps
from reconet.errors import TrainingError, pick
from reconet.models import build_model
from reconet.recipes import Recipe, write_recipe
from reconet.study.results import StudyResult, collect_result
from reconet.study.trial import (
    FAILURE,
    Trial,
    is_study,
    lock_study,
    make_trials,
    read_result,
    read_study,
    write_failure,
    write_results,
)
from reconet.study.variants import STUDIES, Study, Variant, choose_baseline, choose_variants
from reconet.system.files import open_own, readable_bytes, write_text
from reconet.system.own_code import imported_sources
from reconet.system.progress import SILENT, Progress
from reconet.system.run_files import BEST, LAST, REPORT

HEAD = {"context", "rank", "options"}  # settings of a network that its features do not depend on
POLL_SECONDS = 0.3
PATIENCE_SECONDS = 120.0  # for a trial that is asked to stop: it finishes its step and saves


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
            with torch.device("meta"):  # whatever the number of classes
                stages[network] = build_model(recipe, 2, pretrained=False).stages_read
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
    from reconet.study.page import render_html
    from reconet.study.plots import save_figures

    out = out.resolve()
    dropped: set[str] = set()
    if plan.recipe.model.frozen and not keep_networks:
        scored_again = {variant.network_of for variant in plan.study.variants()}
        dropped = {variant.name for variant in plan.variants if variant.name not in scored_again}
    with _open(plan, out) as (trials, steps):
        run_trials(trials, jobs, steps, device, progress, dropped)
    result = collect_result(plan.study, plan.recipe, trials, out, plan.baseline)
    save_figures(result, out)
    write_text(out / REPORT, render_html(result))
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
    """Return one job for each GPU, or else for each core."""
    return torch.cuda.device_count() or os.cpu_count() or 1


class _Job(NamedTuple):
    trial: Trial
    process: subprocess.Popen[bytes]
    started: float


def run_trials(
    trials: Sequence[Trial],
    jobs: int,
    steps: int,
    device: str,
    progress: Progress,
    dropped: Collection[str] = (),
) -> None:
    """Run the trials that are not finished. Each training has `steps` steps.

    `dropped` are the variants whose networks are deleted once they are scored.
    On Ctrl-C or SIGTERM the running trials save and stop. Then a KeyboardInterrupt is raised.
    """
    waiting = [trial for trial in trials if not trial.is_finished()]
    trained = [trial for trial in trials if trial.network is None]
    for trial in waiting:
        (trial.directory / FAILURE).unlink(missing_ok=True)
    running: dict[int, _Job] = {}  # by slot: a share of the machine
    done = 0
    progress.start(steps * len(trained), "steps")
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    try:
        _drop(trials, dropped)  # a kill may have left them
        while waiting or running:
            for slot in sorted(set(range(jobs)) - running.keys()):
                busy = {trial.directory for trial in waiting}
                busy |= {job.trial.directory for job in running.values()}
                # Not those whose network is still to be trained.
                chosen = next((trial for trial in waiting if trial.network not in busy), None)
                if chosen is None:
                    break
                waiting.remove(chosen)
                process = _launch(chosen, slot, jobs, device)
                running[slot] = _Job(chosen, process, time.monotonic())
            time.sleep(POLL_SECONDS)
            for slot, job in list(running.items()):
                if job.process.poll() is not None:
                    del running[slot]
                    _close(job, trials, progress)
                    _drop([job.trial], dropped)
            ended = sum(one.is_finished() or one.failure() is not None for one in trained)
            unfinished = [job.trial for job in running.values() if not job.trial.is_finished()]
            now = ended * steps + sum(trial.step() for trial in unfinished)
            if now > done:
                progress.advance(now - done)
                done = now
    except BaseException:  # after Ctrl-C too, no training goes on alone
        _stop([job.process for job in running.values()])
        raise
    finally:
        signal.signal(signal.SIGTERM, handler)


def _drop(trials: Sequence[Trial], dropped: Collection[str]) -> None:
    """Delete the networks of finished trials. Their results need none of them."""
    for trial in trials:
        if trial.variant.name in dropped and trial.is_finished():
            for name in (LAST, BEST):
                (trial.directory / name).unlink(missing_ok=True)


def _launch(trial: Trial, slot: int, jobs: int, device: str) -> subprocess.Popen[bytes]:
    trial.directory.mkdir(parents=True, exist_ok=True)
    write_recipe(trial.recipe, trial.recipe_file)
    arguments = [str(trial.recipe_file), str(trial.directory), trial.variant.name, device]
    arguments += [str(trial.network or ""), *map(str, imported_sources())]
    with os.fdopen(open_own(trial.output_file, os.O_WRONLY | os.O_APPEND), "ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "reconet.study.run_trial", *arguments],
            env=_environment(slot, jobs),
            stdin=subprocess.PIPE,  # its end tells the trial that this process is gone
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C reaches only this process, which passes it on
        )


def _environment(slot: int, jobs: int) -> dict[str, str]:
    """Give each job its share of the cores, or a GPU of its own."""
    result = dict(os.environ)
    if jobs > 1:
        result.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
        if torch.cuda.is_available():
            gpus = list(map(str, range(torch.cuda.device_count())))
            if "CUDA_VISIBLE_DEVICES" in result:  # that this study may use
                gpus = result["CUDA_VISIBLE_DEVICES"].split(",")[: len(gpus)]
            result["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return result


def _close(job: _Job, trials: Sequence[Trial], progress: Progress) -> None:
    """Tell how a trial ended."""
    trial, code = job.trial, job.process.returncode
    if job.process.stdin is not None:
        job.process.stdin.close()
    result = read_result(trial.directory)
    if result is None and trial.failure() is None:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        end = f"its process ended with {how}; its output is in {trial.output_file}"
        write_failure(trial.directory, end)
    figures = result and f"mIoU {100 * result.figures['miou']:.2f} %"
    done = sum(one.is_finished() for one in trials)
    progress.note(
        f"{done} of {len(trials)} trials: {trial.name}: {figures or f'failed: {trial.failure()}'} "
        f"({time.monotonic() - job.started:.0f} s)"
    )


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Let every trial save. A second Ctrl-C, or no answer, ends them at once."""
    for process in processes:
        process.terminate()
    try:
        for process in processes:
            process.wait(PATIENCE_SECONDS)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        for process in processes:
            process.kill()
            process.wait()
