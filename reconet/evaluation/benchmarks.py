"""The figures that each benchmark is quoted by, from one confusion matrix."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from reconet.evaluation.metrics import Scores, scores

# In the order in which they are printed.
LABELS = {
    "miou": "mIoU",
    "miou_60": "mIoU, 60 classes",
    "miou_59": "mIoU, 59 classes (background not scored)",
    "miou_59_of_60": "mIoU, 59 classes x 59/60 (the lineage's habit)",
    "challenge": "challenge score, (pixel accuracy + mIoU) / 2",
    "pixel_accuracy": "pixel accuracy",
    "mean_accuracy": "mean accuracy",
    "frequency_weighted_iou": "frequency weighted IoU",
}
SIFT_FLOW_ABSENT = ("cow", "desert", "moon")  # do not occur in its test set


def benchmark_scores(count_kk: Tensor, dataset: str, classes: tuple[str, ...]) -> Scores:
    """The scores; classes that the benchmark leaves out of the mean have no IoU."""
    result = scores(count_kk)
    if dataset != "siftflow":
        return result
    out_k = torch.tensor([name in SIFT_FLOW_ABSENT for name in classes], device=count_kk.device)
    out_k &= count_kk.sum(1) == 0
    iou_k = result.iou_k.masked_fill(out_k, torch.nan)
    return result._replace(iou_k=iou_k, mean_iou=iou_k.nanmean())


def score_figures(count_kk: Tensor, dataset: str, classes: tuple[str, ...]) -> dict[str, float]:
    """The usual four, and what else is usual for this dataset."""
    result = benchmark_scores(count_kk, dataset, classes)
    figures = {
        "miou": result.mean_iou.item(),
        "pixel_accuracy": result.pixel_accuracy.item(),
        "mean_accuracy": result.mean_accuracy.item(),
        "frequency_weighted_iou": result.frequency_weighted_iou.item(),
    }
    more = MORE.get(dataset)
    return figures | more(result, count_kk) if more else figures


def plain(value: Any) -> Any:
    """For JSON, which has no NaN: None in its place, in lists and tables too."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _pascal_context(result: Scores, count_kk: Tensor) -> dict[str, float]:
    """Without background: its pixels are not scored; saying background elsewhere is a miss."""
    scored_kk = count_kk.clone()
    scored_kk[0] = 0
    without = scores(scored_kk).iou_k[1:].nanmean().item()
    sixty = result.mean_iou.item()
    return {"miou_60": sixty, "miou_59": without, "miou_59_of_60": without * 59 / 60}


def _pascal_context_59(result: Scores, count_kk: Tensor) -> dict[str, float]:
    """Of a network that does not know background the true 60-class score cannot be had."""
    mean = result.mean_iou.item()
    return {"miou_59": mean, "miou_59_of_60": mean * 59 / 60}


def _ade20k(result: Scores, count_kk: Tensor) -> dict[str, float]:
    return {"challenge": (result.pixel_accuracy.item() + result.mean_iou.item()) / 2}


MORE: dict[str, Callable[[Scores, Tensor], dict[str, float]]] = {
    "pcontext": _pascal_context,
    "pcontext59": _pascal_context_59,
    "ade20k": _ade20k,
}
