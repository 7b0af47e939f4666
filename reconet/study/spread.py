"""One spread of scores for all variants of a study. Pure.

A few seeds tell little about the spread of one variant, and Student's interval pays for that: with
three seeds it is 4.3 standard errors wide to either side. But all variants train on the same data
with the same settings. So they estimate one spread together: what is left of all scores after a
mean for each variant and a shift for each seed. For two variants this is Student's paired interval.

If the variants spread too differently for that (Bartlett's test), each keeps its own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from reconet.study.stats import CONFIDENCE, Estimate, paired_difference, t_quantile

UNLIKE = 0.05  # less probable differences of spreads are not by chance
Scores = Mapping[str, Mapping[int, float]]  # by variant and seed


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The standard deviation of a score over seeds, estimated with `freedom` degrees of freedom."""

    deviation: float
    freedom: int


def common_spread(scores: Scores) -> Spread | None:
    """Estimate the spread that all variants share. Returns None if there is none."""
    trials = [(variant, seed) for variant, by_seed in scores.items() for seed in by_seed]
    if not trials:
        return None
    if probability_of_spreads([list(by_seed.values()) for by_seed in scores.values()]) < UNLIKE:
        return None
    score_n = np.array([scores[variant][seed] for variant, seed in trials])
    design_np = _design(trials)
    effect_p, _, rank, _ = np.linalg.lstsq(design_np, score_n, rcond=None)
    freedom = len(trials) - int(rank)
    if freedom < 1:
        return None
    left_n = score_n - design_np @ effect_p
    return Spread(deviation=math.sqrt(float(left_n @ left_n) / freedom), freedom=freedom)


def _design(trials: Sequence[tuple[str, int]]) -> NDArray[np.float64]:
    """Return a row for each trial, with a 1 for its variant and a 1 for its seed."""
    variants = list(dict.fromkeys(variant for variant, _ in trials))
    seeds = list(dict.fromkeys(seed for _, seed in trials))
    design_np = np.zeros((len(trials), len(variants) + len(seeds)))
    for row, (variant, seed) in enumerate(trials):
        design_np[row, variants.index(variant)] = 1
        design_np[row, len(variants) + seeds.index(seed)] = 1
    return design_np


def probability_of_spreads(groups: Sequence[Sequence[float]]) -> float:
    """Return how probable spreads as different as these are, if they differ only by chance.

    This is Bartlett's test. Groups of one value say nothing.
    """
    groups = [group for group in groups if len(group) > 1]
    if len(groups) < 2:
        return 1.0
    freedom_g = np.array([len(group) - 1 for group in groups])
    variance_g = np.array([np.var(group, ddof=1) for group in groups])
    total = int(freedom_g.sum())
    pooled = float(freedom_g @ variance_g) / total
    if pooled == 0 or (variance_g == 0).any():
        return 1.0 if pooled == 0 else 0.0
    unlike = total * math.log(pooled) - float(freedom_g @ np.log(variance_g))
    correction = 1 + (float((1 / freedom_g).sum()) - 1 / total) / (3 * (len(groups) - 1))
    half = torch.tensor([(len(groups) - 1) / 2, max(0.0, unlike / correction) / 2]).double()
    return float(torch.special.gammaincc(half[0], half[1]))


def difference(
    values: Mapping[int, float], baseline: Mapping[int, float], spread: Spread | None
) -> Estimate | None:
    """Estimate a difference seed by seed, with the spread of all variants if they share one."""
    own = paired_difference(values, baseline)
    if own is None or spread is None:
        return own
    half = t_quantile(CONFIDENCE, spread.freedom) * spread.deviation * math.sqrt(2 / own.count)
    return Estimate(mean=own.mean, half_width=half, count=own.count)
