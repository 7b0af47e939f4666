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

from reconet.inference.windows import LEAST, tempered
from reconet.types import IGNORE

BINS = 15
PIXELS = 2000  # of an image, for the temperature
FITTED = 100_000  # pixels that it is fitted on, at most
MOST = 200_000_000  # bytes of all of them: of more images, fewer pixels
RANGE = (0.05, 20.0)  # of temperatures


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How well the confidences of a network are calibrated, and the temperature that mends them."""

    ece: float  # of all labelled pixels, as the network is
    confidence: tuple[float | None, ...]  # the mean of each bin; None for one without pixels
    accuracy: tuple[float | None, ...]
    share: tuple[float, ...]  # of the pixels
    temperature: float  # fitted on every second image; 1 if that does not help
    ece_with: float  # with that temperature, of pixels of the other images


@dataclass(frozen=True)
class Part:
    """A part of an image: all its pixels by confidence, and some of its probabilities."""

    image: int  # its number in the dataset
    sums_3m: Tensor
    probability_nk: Tensor
    label_n: Tensor


class Reliability:
    """Count pixels by confidence, and gather some of them to fit a temperature on."""

    def __init__(self, images: int, classes: int) -> None:
        self.pixels = max(1, min(PIXELS, MOST // (4 * classes * max(1, images))))
        self.parts: list[Part] = []

    def add(
        self,
        image: int,
        probability_hkw: Tensor,
        label_hw: Tensor,
        best: tuple[Tensor, Tensor],
        height: int,
    ) -> None:
        """Add some rows of an image, which has `height` of them. Void pixels do not count.

        `best` is what `best_class` returns for them.
        """
        predicted_hw, confidence_hw = best
        known_n = label_hw.flatten() != IGNORE
        right_n = (predicted_hw == label_hw).flatten()
        sums_3m = bin_sums(confidence_hw.flatten(), right_n, known_n)
        rows, width = label_hw.shape
        random = torch.Generator().manual_seed(image)
        many = -(-self.pixels * rows // height)
        place_n = torch.randint(rows * width, (many,), generator=random).to(label_hw.device)
        row_n, column_n = place_n // width, place_n % width
        label_n = label_hw[row_n, column_n]
        drawn = label_n != IGNORE
        probability_nk = probability_hkw[row_n, :, column_n][drawn].float().cpu()
        self.parts.append(Part(image, sums_3m, probability_nk, label_n[drawn].long().cpu()))

    def result(self) -> Calibration | None:
        """Return the calibration of all images. None if there are fewer than two."""
        parts = sorted(self.parts, key=lambda part: part.image)
        halves = [[part for part in parts if part.image % 2 == half] for half in (0, 1)]
        if not all(sum(len(part.label_n) for part in half) for half in halves):
            return None
        fitted, others = (
            (torch.cat([p.probability_nk for p in half]), torch.cat([p.label_n for p in half]))
            for half in halves
        )
        step = -(-len(fitted[1]) // FITTED)
        temperature = fit_temperature(*(column[::step] for column in fitted))
        sums_3m = torch.stack([part.sums_3m for part in parts]).sum(0)
        count_m, confidence_m, right_m = sums_3m
        confidence_n, predicted_n = tempered(others[0], temperature).max(1)
        known_n = torch.ones_like(predicted_n, dtype=torch.bool)
        ece = error(sums_3m)
        ece_with = error(bin_sums(confidence_n, predicted_n == others[1], known_n))
        helps = ece_with < ece
        return Calibration(
            ece=ece,
            confidence=_means(confidence_m, count_m),
            accuracy=_means(right_m, count_m),
            share=tuple((count_m / count_m.sum()).tolist()),
            temperature=temperature if helps else 1.0,
            ece_with=ece_with if helps else ece,
        )


def bin_sums(confidence_n: Tensor, right_n: Tensor, known_n: Tensor) -> Tensor:
    """Return sums_3m: for each bin its known pixels, their confidences, and how many are right."""
    confidence_n, right_n, known_n = confidence_n.cpu(), right_n.cpu(), known_n.cpu()
    bin_n = (confidence_n * BINS).long().clamp(0, BINS - 1).where(known_n, BINS)
    count_m2 = torch.bincount(2 * bin_n + right_n, minlength=2 * BINS + 2).view(-1, 2)[:BINS]
    confidence_m = torch.bincount(bin_n, weights=confidence_n.double(), minlength=BINS + 1)[:BINS]
    return torch.stack([count_m2.sum(1).double(), confidence_m, count_m2[:, 1].double()])


def error(sums_3m: Tensor) -> float:
    """Return the expected calibration error."""
    count_m, confidence_m, right_m = sums_3m
    return float((confidence_m - right_m).abs().sum() / count_m.sum().clamp(min=1))


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
