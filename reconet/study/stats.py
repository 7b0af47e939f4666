"""Means with intervals, for a handful of seeds. Pure.

The interval of a mean is Student's: mean +- t * s / sqrt(n). Two variants with the same seeds saw
the same images in the same order. So their difference is taken seed by seed and has an interval of
its own, which is usually narrower.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over `count` values. The `half_width` of its interval is None for a single value."""

    mean: float
    half_width: float | None
    count: int

    @property
    def low(self) -> float | None:
        """Return the lower end of the interval."""
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float | None:
        """Return the upper end of the interval."""
        return None if self.half_width is None else self.mean + self.half_width

    def excludes_zero(self) -> bool:
        """Return whether 0 is outside of the interval."""
        return self.half_width is not None and abs(self.mean) > self.half_width


def estimate(values: Sequence[float]) -> Estimate:
    """Compute the mean of at least one value, with its interval."""
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean=mean, half_width=None, count=1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    error = math.sqrt(variance / count)
    return Estimate(mean=mean, half_width=t_quantile(CONFIDENCE, count - 1) * error, count=count)


def paired_difference(
    values: Mapping[int, float], baseline: Mapping[int, float]
) -> Estimate | None:
    """Estimate the difference to a baseline over the seeds that both have, if there are any."""
    shared = sorted(values.keys() & baseline.keys())
    if not shared:
        return None
    return estimate([values[seed] - baseline[seed] for seed in shared])


def t_quantile(confidence: float, freedom: int) -> float:
    """Return the t for which Student's distribution has `confidence` between -t and t."""
    low, high = 0.0, 1.0
    while t_probability(high, freedom) < confidence:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_probability(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def t_probability(t: float, freedom: int) -> float:
    """Return the probability of -t to t under Student's distribution.

    For whole degrees of freedom these are finite sums: Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
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
