"""The results of a study as rows: means and intervals over seeds, beside the paper's scores."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from reconet.recipes.schema import Recipe
from reconet.study.paper_scores import PAPER
from reconet.study.spread import Spread, common_spread, difference
from reconet.study.stats import Estimate, estimate
from reconet.study.trial import Trial, TrialResult, read_result
from reconet.study.variants import Study, Variant, choose_baseline
from reconet.system.paths import short_path, short_paths
from reconet.system.readable import counted

FIGURE = "miou"


@dataclass(frozen=True, kw_only=True)
class VariantResult:
    """The results of one variant. Scores are fractions. Only tables show per cent."""

    variant: str
    about: str
    trials: tuple[TrialResult, ...]
    score: Estimate | None  # None: no trial is finished
    difference: Estimate | None  # to the baseline, over the same seeds
    pairs: dict[int, float]  # that difference for each seed
    paper: float | None  # per cent, as printed

    def with_mean(self) -> Estimate | None:
        """Return the score with the attention replaced by its mean over the scored images."""
        values = [t.miou_with_mean for t in self.trials if t.miou_with_mean is not None]
        return estimate(values) if values else None

    def lost(self) -> Estimate | None:
        """Return how much lower that score is, seed by seed. Zero: the attention is dead."""
        differences = [
            trial.figures[FIGURE] - trial.miou_with_mean
            for trial in self.trials
            if trial.miou_with_mean is not None
        ]
        return estimate(differences) if differences else None

    def last_liveness(self, name: str) -> float | None:
        """Return a liveness figure at the last validation, as a mean over seeds."""
        ends = [trial.trajectory[-1] for trial in self.trials if trial.trajectory]
        return _mean([end[name] for end in ends if name in end])

    def speed(self) -> float | None:
        """Return images per second in training: the median, as seeds may be of other machines."""
        speeds = [t.images_per_second for t in self.trials if t.images_per_second is not None]
        return median(speeds) if speeds else None


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """All results in the directory of a study."""

    study: Study
    recipe: Recipe
    seeds: tuple[int, ...]
    baseline: str  # the variant that the others are compared with
    spread: Spread | None  # of the scores of all variants over seeds; None: each has its own
    rows: tuple[VariantResult, ...]
    missing: tuple[str, ...]  # trials without a result, and why
    out: Path

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "study": self.study.name,
            "question": self.study.question,
            "baseline": self.baseline,
            "spread": self.spread and asdict(self.spread),
            "trained_on": self.recipe.data.train_split,
            "scored_on": self.recipe.data.val_split,
            "out": str(self.out),
            "seeds": list(self.seeds),
            "recipe": self.recipe.model_dump(mode="json"),
            "conditions": dict(conditions(self)),
            "rows": [
                {
                    "variant": row.variant,
                    "about": row.about,
                    "score": row.score and asdict(row.score),
                    "difference": row.difference and asdict(row.difference),
                    "difference_by_seed": row.pairs,
                    "with_mean": (mean := row.with_mean()) and asdict(mean),
                    "lost_with_mean": (lost := row.lost()) and asdict(lost),
                    "paper": row.paper,
                    "cells": [asdict(trial) for trial in row.trials],
                }
                for row in self.rows
            ],
            "missing": list(self.missing),
        }


def collect_result(
    study: Study, recipe: Recipe, trials: Sequence[Trial], out: Path, baseline: str | None = None
) -> StudyResult:
    """Read the results of all trials, and compare the variants with a baseline.

    By default that is the study's, or the first variant if the study's is not among the trials.
    The rows of a ranked study begin with the best.
    """
    results = {trial.name: read_result(trial.directory) for trial in trials}
    variants = {trial.variant.name: trial.variant for trial in trials}
    by_variant: dict[str, dict[int, TrialResult]] = {name: {} for name in variants}
    for trial in trials:
        if (result := results[trial.name]) is not None:
            by_variant[trial.variant.name][trial.seed] = result
    scores = {
        name: {seed: result.figures[FIGURE] for seed, result in finished.items()}
        for name, finished in by_variant.items()
    }
    if variants:
        baseline = choose_baseline(study, list(variants.values()), baseline)
    base = baseline or study.baseline
    spread = common_spread(scores)
    rows = [
        _variant_result(study, variant, by_variant[name], scores[name], scores[base], spread)
        for name, variant in variants.items()
    ]
    if study.ranked:
        rows.sort(key=lambda row: -row.score.mean if row.score else 0.0)
    return StudyResult(
        study=study,
        recipe=recipe,
        seeds=tuple(dict.fromkeys(trial.seed for trial in trials)),
        baseline=base,
        spread=spread,
        rows=tuple(rows),
        missing=tuple(
            f"{trial.name}: {trial.failure() or 'not finished'}"
            for trial in trials
            if results[trial.name] is None
        ),
        out=out,
    )


def _variant_result(
    study: Study,
    variant: Variant,
    finished: Mapping[int, TrialResult],
    scores: Mapping[int, float],
    base: Mapping[int, float],
    spread: Spread | None,
) -> VariantResult:
    is_baseline = scores is base
    shared = [] if is_baseline else sorted(scores.keys() & base.keys())
    paper = PAPER[study.name].miou if study.name in PAPER else {}
    return VariantResult(
        variant=variant.name,
        about=variant.about,
        trials=tuple(finished.values()),
        score=estimate(list(scores.values())) if finished else None,
        difference=None if is_baseline else difference(scores, base, spread),
        pairs={seed: scores[seed] - base[seed] for seed in shared},
        paper=paper.get(variant.name),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def conditions(result: StudyResult) -> list[tuple[str, str]]:
    """List what one must know to read the figures, as (name, value)."""
    recipe, varied = result.recipe, _varied(result)
    trials = [trial for row in result.rows for trial in row.trials]
    model, data, train = recipe.model, recipe.data, recipe.train
    crop = f"{data.crop[0]} x {data.crop[1]}"
    length = counted(trials[0].steps, "step") if trials else f"{train.steps or train.epochs}"
    protocols = dict.fromkeys(trial.protocol for trial in trials)
    processors = dict.fromkeys(trial.environment.get("processor", "?") for trial in trials)
    versions = dict.fromkeys(f"torch {trial.environment.get('torch', '?')}" for trial in trials)
    amount = f", {json.dumps(short_paths(data.options))}" if data.options else ""
    source = train.init_from or model.weights
    weights = f"from {short_path(str(source))}" if source else "fresh"
    rank = f", rank {model.rank}" if model.rank else ", each context's own rank"
    rank = "" if "model.rank" in varied else rank
    project = f", projected to {model.project} components" if model.project else ""
    project = "" if "model.project" in varied else project
    frozen = ", frozen" if model.frozen else ""
    views = (
        f"; cached features of {counted(data.views, 'view')} of each image, the same for all seeds "
        f"(view seed {data.view_seed})"
        if data.views
        else ""
    )
    return [
        ("trained on", f"{data.name} {data.train_split}, crop {crop}{amount}{views}"),
        ("scored on", f"{data.name} {data.val_split}"),
        (
            "network",
            f"{model.backbone_title}{frozen}{model.geometry}{project}{rank}, weights {weights}",
        ),
        (
            "training",
            f"{length} of {counted(train.batch, 'image')}, lr {recipe.optim.lr:g}, "
            f"{_precisions(trials, recipe)}",
        ),
        ("seeds", ", ".join(map(str, result.seeds))),
        ("score", "of the network at the last step; " + " | ".join(protocols)),
        ("machine", "; ".join([*processors, *versions])),
    ]


def _varied(result: StudyResult) -> set[str]:
    """Return the settings that variants set themselves, so that the recipe does not tell them."""
    shown = {row.variant for row in result.rows}
    chosen = [variant for variant in result.study.variants() if variant.name in shown]
    return {setting.partition("=")[0] for variant in chosen for setting in variant.settings}


def _precisions(trials: Sequence[TrialResult], recipe: Recipe) -> str:
    """Name the precision of all trials, or each with its trials if there are several."""
    counts = Counter(trial.precision or recipe.train.precision for trial in trials)
    if len(counts) < 2:
        return next(iter(counts), recipe.train.precision)
    return ", ".join(f"{name} ({counted(n, 'trial')})" for name, n in counts.most_common())
