"""The results of a study as rows: means and intervals over seeds, beside the paper's scores."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reconet.recipes.schema import Recipe
from reconet.study.paper_scores import PAPER
from reconet.study.stats import Estimate, estimate, paired_difference
from reconet.study.trial import LIVENESS, Trial, TrialResult, read_result
from reconet.study.variants import Study
from reconet.system.paths import short_path, short_paths

FIGURE = "miou"
COLUMNS = (
    *("variant", "mIoU %", "95 %", "seeds", "to baseline", "95 %", "params M", "MACs G", "img/s"),
    *("spread of A", "eff. rank", "spread of lambda", "between images", "paper %"),
)


@dataclass(frozen=True, kw_only=True)
class VariantResult:
    """The results of one variant. Scores are fractions. Only tables show per cent."""

    variant: str
    about: str
    trials: tuple[TrialResult, ...]
    score: Estimate | None  # None: no trial is finished
    difference: Estimate | None  # to the baseline, over the same seeds
    paper: float | None  # per cent, as printed

    def last_liveness(self, name: str) -> float | None:
        """Return a liveness figure at the last validation, as a mean over seeds."""
        ends = [trial.trajectory[-1] for trial in self.trials if trial.trajectory]
        return _mean([end[name] for end in ends if name in end])

    def between_images(self) -> float | None:
        """Return how much the attention differs between images, as a mean over seeds."""
        return _mean([t.spectrum.between_images for t in self.trials if t.spectrum is not None])

    def speed(self) -> float | None:
        """Return images per second in training, as a mean over seeds."""
        speeds = [t.images_per_second for t in self.trials]
        return _mean([speed for speed in speeds if speed is not None])


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    """All results in the directory of a study."""

    study: Study
    recipe: Recipe
    seeds: tuple[int, ...]
    rows: tuple[VariantResult, ...]
    missing: tuple[str, ...]  # trials without a result, and why
    out: Path

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "study": self.study.name,
            "question": self.study.question,
            "baseline": self.study.baseline,
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
                    "paper": row.paper,
                    "cells": [asdict(trial) for trial in row.trials],
                }
                for row in self.rows
            ],
            "missing": list(self.missing),
        }


def collect_result(study: Study, recipe: Recipe, trials: Sequence[Trial], out: Path) -> StudyResult:
    """Read the results of all trials, and compare the variants with the baseline."""
    results = {trial.name: read_result(trial.directory) for trial in trials}
    by_variant: dict[str, dict[int, TrialResult]] = {}
    for trial in trials:
        finished = by_variant.setdefault(trial.variant.name, {})
        if (result := results[trial.name]) is not None:
            finished[trial.seed] = result
    scores = {
        name: {seed: result.figures[FIGURE] for seed, result in finished.items()}
        for name, finished in by_variant.items()
    }
    about = {trial.variant.name: trial.variant.about for trial in trials}
    paper = PAPER[study.name].miou if study.name in PAPER else {}
    return StudyResult(
        study=study,
        recipe=recipe,
        seeds=tuple(dict.fromkeys(trial.seed for trial in trials)),
        rows=tuple(
            VariantResult(
                variant=name,
                about=about[name],
                trials=tuple(finished.values()),
                score=estimate(list(scores[name].values())) if finished else None,
                difference=(
                    None
                    if name == study.baseline
                    else paired_difference(scores[name], scores.get(study.baseline, {}))
                ),
                paper=paper.get(name),
            )
            for name, finished in by_variant.items()
        ),
        missing=tuple(
            f"{trial.name}: {trial.failure() or 'not finished'}"
            for trial in trials
            if results[trial.name] is None
        ),
        out=out,
    )


def table_rows(result: StudyResult) -> list[list[str]]:
    """Return the rows of a table with the columns COLUMNS, as text. Missing values are dashes."""
    return [_texts(row, row.variant == result.study.baseline) for row in result.rows]


def _texts(row: VariantResult, is_baseline: bool) -> list[str]:
    score, difference = row.score, row.difference
    first = row.trials[0] if row.trials else None
    return [
        row.variant,
        _number(_percent(score), 2),
        _half(score),
        str(len(row.trials)),
        "baseline" if is_baseline else _number(_percent(difference), 2, sign=True),
        _half(difference),
        _number(None if first is None else first.params / 1e6, 3),
        _number(None if first is None else first.macs / 1e9, 3),
        _number(row.speed(), 1),
        *(
            _number(row.last_liveness(name), digits)
            for name, digits in zip(LIVENESS, (3, 2, 4), strict=True)
        ),
        _number(row.between_images(), 3),
        "-" if row.paper is None else f"{row.paper:g}",
    ]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _percent(value: Estimate | None) -> float | None:
    return None if value is None else 100 * value.mean


def _half(value: Estimate | None) -> str:
    if value is None or value.half_width is None:
        return "-"
    return f"± {100 * value.half_width:.2f}"


def _number(value: float | None, digits: int, *, sign: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"


def conditions(result: StudyResult) -> list[tuple[str, str]]:
    """List what one must know to read the figures, as (name, value)."""
    recipe = result.recipe
    trials = [trial for row in result.rows for trial in row.trials]
    model, data, train = recipe.model, recipe.data, recipe.train
    crop = f"{data.crop[0]} x {data.crop[1]}"
    length = f"{trials[0].steps} steps" if trials else f"{train.steps or train.epochs}"
    protocols = dict.fromkeys(trial.protocol for trial in trials)
    processors = dict.fromkeys(trial.environment.get("processor", "?") for trial in trials)
    versions = dict.fromkeys(f"torch {trial.environment.get('torch', '?')}" for trial in trials)
    amount = f", {json.dumps(short_paths(data.options))}" if data.options else ""
    weights = f"from {short_path(model.weights)}" if model.weights else "fresh"
    return [
        ("data", f"{data.name} {data.train_split} / {data.val_split}, crop {crop}{amount}"),
        (
            "network",
            f"{model.backbone} x {model.width:g}, output stride {model.output_stride}, rank "
            f"{model.rank or 64}, weights {weights}",
        ),
        ("training", f"{length} of {train.batch} images, lr {recipe.optim.lr:g}"),
        ("seeds", ", ".join(map(str, result.seeds))),
        ("score", "of the network at the last step; " + " | ".join(protocols)),
        ("machine", "; ".join([*processors, *versions])),
    ]


CAPTION = (
    "95 %: half of Student's interval over seeds; differences are taken seed by seed. Each "
    "interval stands for itself: among twenty rows one is expected to miss. Params and MACs: one "
    "crop, in use. img/s: median in training, with whatever else the machine did. Spread of A and "
    "of lambda: standard deviation over mean; between images: the same for A at one place and "
    "channel"
)


def caption(result: StudyResult) -> list[str]:
    """Explain the columns of the table, in sentences without full stops."""
    lines = [f"baseline: {result.study.baseline}", CAPTION]
    if all(row.variant != result.study.baseline for row in result.rows):
        lines[0] = f"the baseline, {result.study.baseline}, was left out: no differences"
    if result.study.name in PAPER:
        lines.append(f"paper: {PAPER[result.study.name].source}")
    return lines
