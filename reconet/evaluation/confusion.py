"""Count one confusion matrix over all images of a dataset and all processes.

Dimensions: h, w pixels, c colours, k classes. count_kk[t, p] = pixels of class t predicted as p.
Counts of each image are described in intervals.py.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from reconet.data.dataset import Dataset
from reconet.data.loader import OnError, Skipped, samples
from reconet.errors import DataError, ReconetError
from reconet.evaluation.calibration import Reliability
from reconet.evaluation.intervals import ImageCounts
from reconet.evaluation.metrics import confusion_matrix, count_boundaries
from reconet.inference.protocol import WHOLE, Protocol
from reconet.inference.windows import Forward, best_class, probability_bands
from reconet.models.segmenter import Segmenter
from reconet.system.distributed import Processes
from reconet.system.progress import SILENT, Progress
from reconet.types import IGNORE, Label

OnPrediction = Callable[[str, Label], None]  # gets the name of an image and its predicted labels
Stop = Callable[[], bool]
LEAST = 1e-12  # a probability, so that one pixel cannot make the loss infinite


class StoppedError(ReconetError):
    """Somebody asked to stop before the last image."""


class Confusion(NamedTuple):
    """A confusion matrix, and how many images it leaves out. Both are over all processes."""

    count_kk: Tensor
    skipped: int  # images that could not be read
    loss: float | None = None  # cross-entropy of a labelled pixel, if it was asked for
    counts: ImageCounts | None = None  # of each image, if they were asked for
    reliability: Reliability | None = None  # of all confidences, with the counts


def count_model_confusion(
    model: Segmenter,
    dataset: Dataset,
    processes: Processes,
    *,
    protocol: Protocol = WHOLE,
    workers: int = 0,
    on_error: OnError = "raise",
    with_loss: bool = False,
    stop: Stop = lambda: False,
    progress: Progress = SILENT,
) -> Confusion:
    """Count the confusion of a model that may be in training. Its mode is restored afterwards."""
    was_training = model.training
    model.eval()
    try:
        return count_confusion(
            model.coarse,
            model.num_classes,
            dataset,
            processes,
            protocol=protocol,
            workers=workers,
            on_error=on_error,
            with_loss=with_loss,
            stop=stop,
            progress=progress,
        )
    finally:
        model.train(was_training)


@torch.no_grad()
def count_confusion(
    forward: Forward,
    num_classes: int,
    dataset: Dataset,
    processes: Processes,
    *,
    protocol: Protocol = WHOLE,
    workers: int = 0,
    on_error: OnError = "raise",
    on_prediction: OnPrediction | None = None,
    with_loss: bool = False,
    per_image: bool = False,
    stop: Stop = lambda: False,
    progress: Progress = SILENT,
) -> Confusion:
    """Count (true, predicted) pairs over every image at its own size.

    Every process gets the same result. Images come one by one and are not kept. An image that
    cannot be read raises on all processes, or is skipped if `on_error` is "skip". If `stop`
    returns True on any process, all raise a StoppedError. `with_loss` also measures the loss,
    and `per_image` keeps the counts of each image, with those of pixels at boundaries, and
    how reliable confidences are.
    `progress` advances by one for each image of this process. The caller starts it.
    """
    if len(dataset) == 0:
        raise DataError(f"{dataset.info.name} has no images in split {dataset.split!r}.")
    device = processes.device
    count_kk = torch.zeros(num_classes, num_classes, dtype=torch.int64, device=device)
    counts, reliability = ImageCounts(num_classes), Reliability(len(dataset), num_classes)
    stopped, skipped, loss = False, 0, torch.zeros(2, dtype=torch.float64)
    rank, size = processes.rank, processes.size
    with processes.together():
        for turn, sample in enumerate(
            samples(dataset, rank=rank, processes=size, workers=workers, on_error=on_error)
        ):
            if isinstance(sample, Skipped):
                skipped += 1
                continue
            image_hwc = torch.from_numpy(sample.image_hwc).to(device)
            label_hw = torch.from_numpy(sample.label_hw).to(device)
            predicted_hw = torch.empty_like(label_hw)
            for rows, part_hkw in probability_bands(forward, image_hwc, protocol, num_classes):
                best = best_class(part_hkw)
                predicted_hw[rows] = best[0]
                if per_image:
                    number, height = rank + turn * size, len(label_hw)
                    reliability.add(number, part_hkw, label_hw[rows], best, height)
                if with_loss:
                    loss += log_loss(part_hkw, label_hw[rows])
            image_kk = confusion_matrix(label_hw, predicted_hw, num_classes)
            count_kk += image_kk
            if on_prediction is not None or per_image:
                found_hw = predicted_hw.cpu().numpy()
                if on_prediction is not None:
                    on_prediction(sample.name, found_hw)
                if per_image:
                    boundary_3k = count_boundaries(sample.label_hw, found_hw, num_classes)
                    counts.add(sample.name, image_kk.cpu().numpy(), boundary_3k)
            progress.advance()
            if stopped := stop():
                break
    if processes.sum(torch.tensor(float(stopped), device=device)):
        raise StoppedError("stopped before the last image.")
    all_skipped = processes.sum(torch.tensor(skipped, device=device))
    total, pixels = torch.stack(processes.gather(loss)).sum(0).tolist()
    mean = total / pixels if with_loss and pixels else None
    result = Confusion(processes.sum(count_kk).cpu(), int(all_skipped), mean)
    if not per_image:
        return result
    reliability.parts = [part for one in processes.gather(reliability.parts) for part in one]
    all_counts = ImageCounts.united(processes.gather(counts))
    return result._replace(counts=all_counts, reliability=reliability)


def log_loss(probability_hkw: Tensor, label_hw: Tensor) -> Tensor:
    """Return the sum of -log p of the true classes, and the number of labelled pixels."""
    valid_hw = label_hw != IGNORE
    true_h1w = label_hw.where(valid_hw, 0).long().unsqueeze(1)
    log_hw = probability_hkw.gather(1, true_h1w).squeeze(1).clamp_min(LEAST).log()
    row_h2 = torch.stack([-(log_hw * valid_hw).sum(1), valid_hw.sum(1)], 1)
    return row_h2.cpu().sum(0, dtype=torch.float64)
