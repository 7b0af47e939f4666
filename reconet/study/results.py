"""The results of a study: means, intervals and differences over seeds.

The interval of a mean is Student's. Two variants with the same seeds saw the same images in the
same order, so their difference is taken seed by seed.

A few seeds tell little about the spread of one variant: with three seeds Student's interval is 4.3
standard errors wide to either side. But all variants train on the same data with the same settings.
So they estimate one spread together: what is left of all scores after a mean for each variant and a
shift for each seed. For two variants this is Student's paired interval. If the variants spread too
differently for that (Bartlett's test), each keeps its own.

scipy is imported late: every trial's process imports this package.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from reconet.recipes.schema import Recipe
from reconet.study.trial import Trial, TrialResult, read_result
from reconet.study.variants import Study, choose_baseline
from reconet.system.readable import counted, short_path, short_paths

CONFIDENCE = 0.95
UNLIKE = 0.05  # less probable differences of spreads are not by chance
Scores = Mapping[int, float]  # by seed


@dataclass(frozen=True)
class Estimate:
    """A mean over `count` values. The `half_width` of its interval is None for a single value."""

    mean: float
    half_width: float | None
    count: int

    def excludes_zero(self) -> bool:
        """Return whether 0 is outside of the interval."""
        return self.half_width is not None and abs(self.mean) > self.half_width


@dataclass(frozen=True)
class Spread:
    """The standard deviation of a score over seeds, estimated with `freedom` degrees of freedom."""

    deviation: float
    freedom: int

    def half_width(self, count: int) -> float:
        """Return half of Student's interval of a mean over `count` values that spread so."""
        from scipy.stats import t  # type: ignore[import-untyped]

        error = self.deviation / math.sqrt(count)
        return float(t.ppf(0.5 + CONFIDENCE / 2, self.freedom)) * error


def estimate(values: Sequence[float]) -> Estimate:
    """Compute the mean of at least one value, with its interval."""
    count = len(values)
    half = Spread(stdev(values), count - 1).half_width(count) if count > 1 else None
    return Estimate(fmean(values), half, count)


def difference(values: Scores, baseline: Scores, spread: Spread | None = None) -> Estimate | None:
    """Estimate the difference to a baseline over the seeds that both have, if there are any.

    Its interval comes from the spread of all variants if they share one.
    """
    shared = sorted(values.keys() & baseline.keys())
    if not shared:
        return None
    own = estimate([values[seed] - baseline[seed] for seed in shared])
    if spread is None:
        return own
    # A difference is of two scores, so its variance is twice theirs.
    return replace(own, half_width=math.sqrt(2) * spread.half_width(own.count))


def common_spread(scores: Mapping[str, Scores]) -> Spread | None:
    """Estimate the spread that all variants share, from scores by variant and seed.

    Returns None if there is none.
    """
    trials = [(name, seed, score) for name, one in scores.items() for seed, score in one.items()]
    alike = probability_of_spreads([list(by_seed.values()) for by_seed in scores.values()])
    if not trials or alike < UNLIKE:
        return None
    name_n, seed_n, score_n = (np.array(column) for column in zip(*trials, strict=True))
    # A row for each trial, with a 1 for its variant and a 1 for its seed.
    is_of = [one_n[:, None] == np.unique(one_n) for one_n in (name_n, seed_n)]
    design_np = np.concatenate(is_of, axis=1).astype(float)
    effect_p, _, rank, _ = np.linalg.lstsq(design_np, score_n, rcond=None)
    freedom = len(trials) - int(rank)
    left_n = score_n - design_np @ effect_p
    return Spread(math.sqrt(left_n @ left_n / freedom), freedom) if freedom > 0 else None


def probability_of_spreads(groups: Sequence[Sequence[float]]) -> float:
    """Return how probable spreads as different as these are, if they differ only by chance.

    Groups of one value say nothing.
    """
    from scipy.stats import bartlett

    groups = [group for group in groups if len(group) > 1]
    constant = [len(set(group)) == 1 for group in groups]
    if len(groups) < 2 or all(constant):
        return 1.0
    return 0.0 if any(constant) else float(bartlett(*groups).pvalue)


@dataclass(frozen=True, kw_only=True)
class VariantResult:
    """The results of one variant. Scores are fractions. Only tables show per cent."""

    variant: str
    about: str
    score: Estimate | None  # None: no trial is finished
    difference: Estimate | None  # to the baseline, over the same seeds
    difference_by_seed: dict[int, float]
    with_mean: Estimate | None = None  # the score with the attention replaced by its mean
    lost_with_mean: Estimate | None = None  # seed by seed. Zero: the attention is dead
    paper: float | None = None  # per cent, as printed
    trials: tuple[TrialResult, ...]


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
                {("cells" if key == "trials" else key): value for key, value in asdict(row).items()}
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
    variants = {trial.variant.name: trial.variant for trial in trials}
    found: dict[str, dict[int, TrialResult]] = {name: {} for name in variants}
    missing = []
    for trial in trials:
        if (result := read_result(trial.directory)) is not None:
            found[trial.variant.name][trial.seed] = result
        else:
            missing.append(f"{trial.name}: {trial.failure() or 'not finished'}")
    scores = {
        name: {seed: result.figures["miou"] for seed, result in finished.items()}
        for name, finished in found.items()
    }
    if variants:
        baseline = choose_baseline(study, list(variants.values()), baseline)
    base = baseline or study.baseline
    spread = common_spread(scores)
    rows = []
    for name, variant in variants.items():
        with_mean = {
            seed: result.miou_with_mean
            for seed, result in found[name].items()
            if result.miou_with_mean is not None
        }
        shared = sorted(scores[name].keys() & scores[base].keys()) if name != base else []
        rows.append(
            VariantResult(
                variant=name,
                about=variant.about,
                score=estimate(list(scores[name].values())) if scores[name] else None,
                difference=difference(scores[name], scores[base], spread) if shared else None,
                difference_by_seed={
                    seed: scores[name][seed] - scores[base][seed] for seed in shared
                },
                with_mean=estimate(list(with_mean.values())) if with_mean else None,
                lost_with_mean=difference(scores[name], with_mean),
                paper=study.paper.get(name),
                trials=tuple(found[name].values()),
            )
        )
    if study.ranked:
        rows.sort(key=lambda row: -row.score.mean if row.score else 0.0)
    return StudyResult(
        study=study,
        recipe=recipe,
        seeds=tuple(dict.fromkeys(trial.seed for trial in trials)),
        baseline=base,
        spread=spread,
        rows=tuple(rows),
        missing=tuple(missing),
        out=out,
    )


def conditions(result: StudyResult) -> list[tuple[str, str]]:
    """List what one must know to read the figures, as (name, value)."""
    recipe = result.recipe
    model, data, train = recipe.model, recipe.data, recipe.train
    trials = [trial for row in result.rows for trial in row.trials]
    # What variants set themselves is no condition.
    shown = {row.variant for row in result.rows}
    chosen = [variant for variant in result.study.variants() if variant.name in shown]
    varied = {setting.partition("=")[0] for one in chosen for setting in one.settings}
    network = [f"{model.backbone_title}{', frozen' if model.frozen else ''}{model.geometry}"]
    if model.project and "model.project" not in varied:
        network.append(f"projected to {model.project} components")
    if "model.rank" not in varied:
        network.append(f"rank {model.rank}" if model.rank else "each context's own rank")
    source = train.init_from or model.weights
    network.append(f"weights {f'from {short_path(str(source))}' if source else 'fresh'}")
    options = f", {json.dumps(short_paths(data.options))}" if data.options else ""
    views = (
        f"; cached features of {counted(data.views, 'view')} of each image, the same for all seeds "
        f"(view seed {data.view_seed})"
        if data.views
        else ""
    )
    length = counted(trials[0].steps, "step") if trials else f"{train.steps or train.epochs}"
    counts = Counter(trial.precision or train.precision for trial in trials).most_common()
    told = [f"{name} ({counted(n, 'trial')})" for name, n in counts]
    precision = ", ".join(told) if len(told) > 1 else (counts or [(train.precision, 0)])[0][0]
    machines = [trial.environment.get("processor", "?") for trial in trials]
    versions = [f"torch {trial.environment.get('torch', '?')}" for trial in trials]
    protocols = dict.fromkeys(trial.protocol for trial in trials)
    crop = f"crop {data.crop[0]} x {data.crop[1]}"
    return [
        ("trained on", f"{data.name} {data.train_split}, {crop}{options}{views}"),
        ("scored on", f"{data.name} {data.val_split}"),
        ("network", ", ".join(network)),
        (
            "training",
            f"{length} of {counted(train.batch, 'image')}, lr {recipe.optim.lr:g}, {precision}",
        ),
        ("seeds", ", ".join(map(str, result.seeds))),
        ("score", "of the network at the last step; " + " | ".join(protocols)),
        ("machine", "; ".join(dict.fromkeys([*machines, *versions]))),
    ]
