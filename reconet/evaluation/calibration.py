"""Measure whether a confidence of 0.9 means 90 %, and mend it by a temperature.

The confidence of a pixel is the probability of its predicted class. The expected calibration error
(ECE) is how far confidence and accuracy lie apart, averaged over pixels in bins of confidence.
A temperature T divides the log-probabilities: p ** (1 / T), normalised. It changes no label.
(Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.)

T is fitted on pixels of every second image, and its ECE is measured on those of the others.

Dimensions: n pixels, k classes, h, w rows and columns, m bins.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from reconet.types import IGNORE

BINS = 15
PIXELS = 1000  # of an image, for the temperature
MOST = 400_000_000  # bytes of all of them: of more images, fewer pixels
LEAST = 1e-6  # a probability
RANGE = (0.05, 20.0)  # of temperatures


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How well the confidences of a network are calibrated, and the temperature that mends them."""

    ece: float  # of all labelled pixels, as the network is
    confidence: tuple[float | None, ...]  # the mean of each bin; None for one without pixels
    accuracy: tuple[float | None, ...]
    share: tuple[float, ...]  # of the pixels
    temperature: float  # fitted on every second image
    ece_with: float  # with that temperature, of pixels of the other images


class Reliability:
    """Count pixels by confidence, and gather some of them to fit a temperature on."""

    def __init__(self, images: int, classes: int) -> None:
        room = MOST // (4 * classes * max(1, images))
        self.pixels = max(1, min(PIXELS, room))
        self.sums_3m = torch.zeros(3, BINS, dtype=torch.float64)
        self.sampled: list[tuple[Tensor, Tensor]] = []
        self.random = torch.Generator().manual_seed(0)

    def add(self, probability_nk: Tensor, label_n: Tensor) -> None:
        """Add an image. Void pixels do not count."""
        known_n = label_n != IGNORE
        probability_nk, label_n = probability_nk[known_n].float(), label_n[known_n].long()
        self.sums_3m += bin_sums(probability_nk, label_n).cpu()
        chosen = torch.randperm(len(label_n), generator=self.random)[: self.pixels]
        chosen = chosen.to(label_n.device)
        self.sampled.append((probability_nk[chosen].cpu(), label_n[chosen].cpu()))

    def result(self) -> Calibration | None:
        """Return the calibration of all images. None if there are fewer than two."""
        halves = [self.sampled[start::2] for start in (0, 1)]
        if not all(sum(len(label_n) for _, label_n in half) for half in halves):
            return None
        fitted, others = (
            [torch.cat(column) for column in zip(*half, strict=True)] for half in halves
        )
        temperature = fit_temperature(*fitted)
        count_m, confidence_m, accuracy_m = self.sums_3m
        with_it_nk = tempered(others[0], temperature)
        return Calibration(
            ece=error(self.sums_3m),
            confidence=_means(confidence_m, count_m),
            accuracy=_means(accuracy_m, count_m),
            share=tuple((count_m / count_m.sum()).tolist()),
            temperature=temperature,
            ece_with=error(bin_sums(with_it_nk, others[1])),
        )


def bin_sums(probability_nk: Tensor, label_n: Tensor) -> Tensor:
    """Return sums_3m: for each bin its pixels, their confidences, and how many are right."""
    confidence_n, predicted_n = probability_nk.max(1)
    bin_n = (confidence_n * BINS).long().clamp(max=BINS - 1)
    right_n = predicted_n == label_n
    columns = [torch.ones_like(confidence_n), confidence_n, right_n.to(confidence_n.dtype)]
    return torch.stack(
        [torch.bincount(bin_n, weights=one.double(), minlength=BINS) for one in columns]
    )


def error(sums_3m: Tensor) -> float:
    """Return the expected calibration error."""
    count_m, confidence_m, right_m = sums_3m
    return float((confidence_m - right_m).abs().sum() / count_m.sum().clamp(min=1))


def tempered(probability_nk: Tensor, temperature: float) -> Tensor:
    """Return probabilities at a temperature. Classes are in dimension 1."""
    return (probability_nk.clamp_min(LEAST).log() / temperature).softmax(1)


def fit_temperature(probability_nk: Tensor, label_n: Tensor) -> float:
    """Return the temperature with the smallest cross entropy."""
    from scipy.optimize import minimize_scalar  # type: ignore[import-untyped]

    log_nk = probability_nk.clamp_min(LEAST).double().log()
    true_n1 = label_n[:, None]

    def loss(log_temperature: float) -> float:
        scaled_nk = log_nk / torch.tensor(log_temperature).exp()
        return float((scaled_nk.logsumexp(1) - scaled_nk.gather(1, true_n1)[:, 0]).mean())

    bounds = torch.tensor(RANGE).log().tolist()
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3})
    return float(torch.tensor(found.x).exp())


def _means(sum_m: Tensor, count_m: Tensor) -> tuple[float | None, ...]:
    pairs = zip(sum_m.tolist(), count_m.tolist(), strict=True)
    return tuple(total / count if count else None for total, count in pairs)
