"""A study from its plan to its report."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reconet.errors import pick
from reconet.recipes.schema import Recipe
from reconet.study import variants as grids
from reconet.study.scheduler import Tell, check, entered, make_cells, read_study, run_cells
from reconet.study.page import write_page
from reconet.study.plots import save
from reconet.study.result import StudyResult, gather


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a study is to run."""

    study: grids.Study
    variants: tuple[grids.Variant, ...]
    recipe: Recipe
    seeds: tuple[int, ...]


def make_plan(
    name: str, recipe: Recipe, *, seeds: int | None, variants: Sequence[str] | None, quick: bool
) -> Plan:
    study = pick(grids.STUDIES, name, "study")
    count = seeds or (study.quick_seeds if quick else study.seeds)
    return Plan(
        study=study,
        variants=grids.choose(study, variants, quick=quick),
        recipe=recipe,
        seeds=tuple(range(recipe.train.seed, recipe.train.seed + count)),
    )


def run_study(
    plan: Plan, out: Path, *, jobs: int, device: str = "auto", tell: Tell | None = None
) -> StudyResult:
    """Run what is missing, and write the report of what is there."""
    out = out.resolve()
    cells = make_cells(plan.variants, plan.recipe, plan.seeds, out)
    steps = check(cells)
    with entered(out, plan.study, plan.recipe):
        run_cells(cells, jobs=jobs, steps=steps, device=device, tell=tell or Tell())
    result = gather(plan.study, plan.recipe, cells, out)
    save(result, out)
    write_page(result)
    return result


def open_study(out: Path) -> StudyResult:
    """All that is in a directory of a study, without running anything."""
    out = out.resolve()
    name, recipe = read_study(out)
    study = pick(grids.STUDIES, name, "study")
    there = {path.name for path in out.iterdir() if path.is_dir()}
    variants = tuple(variant for variant in study.variants() if variant.name in there)
    found = [path for variant in variants for path in (out / variant.name).glob("seed*")]
    seeds = sorted({int(path.name.removeprefix("seed")) for path in found if path.is_dir()})
    return gather(study, recipe, make_cells(variants, recipe, seeds, out), out)


def default_jobs() -> int:
    """One thread each, side by side, is the better use of few cores; GPUs take one job each."""
    import torch

    return torch.cuda.device_count() or os.cpu_count() or 1
