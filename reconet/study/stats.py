"""Means with honest intervals, for a handful of seeds. Pure.

The interval of a mean is Student's: mean +- t * s / sqrt(n). Two variants that ran with the same
seeds saw the same images in the same order, so their difference is taken seed by seed, and has an
interval of its own, which is usually the narrower one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over `count` values; `half_width` of its interval is None for a single one."""

    mean: float
    half_width: float | None
    count: int

    @property
    def low(self) -> float | None:
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float | None:
        return None if self.half_width is None else self.mean + self.half_width

    def excludes_zero(self) -> bool:
        return self.half_width is not None and abs(self.mean) > self.half_width


def estimate(values: Sequence[float]) -> Estimate:
    count = len(values)
    if count == 0:
        raise ValueError("a mean needs at least one value")
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean=mean, half_width=None, count=1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    error = math.sqrt(variance / count)
    return Estimate(mean=mean, half_width=t_quantile(CONFIDENCE, count - 1) * error, count=count)


def paired(values: Mapping[int, float], baseline: Mapping[int, float]) -> Estimate | None:
    """The difference to a baseline over the seeds that both have; None if there are none."""
    shared = sorted(values.keys() & baseline.keys())
    if not shared:
        return None
    return estimate([values[seed] - baseline[seed] for seed in shared])


def t_quantile(confidence: float, freedom: int) -> float:
    """The t within which Student's distribution has `confidence`, both sides counted."""
    low, high = 0.0, 1.0
    while t_within(high, freedom) < confidence:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_within(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def t_within(t: float, freedom: int) -> float:
    """Probability of -t..t: the finite sums for whole degrees of freedom (Abramowitz and Stegun,
    26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2 == 1
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(freedom // 2):
        total += term
        ratio = (2 * k + 2) / (2 * k + 3) if odd else (2 * k + 1) / (2 * k + 2)
        term *= ratio * cosine * cosine
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
