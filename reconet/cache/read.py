"""Read cached features: batches to train on, and scores.

Batches are a pure function of (seed, step), like batches of images. Which image stands in which
slot is the order of data/order.py. In epoch e an image shows its view e modulo the number of views.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from reconet.cache.store import LABEL, Store
from reconet.data.dataset import Dataset, read_label
from reconet.data.order import BatchOrder, steps_per_epoch
from reconet.evaluation.confusion import Confusion, StoppedError
from reconet.evaluation.metrics import confusion_matrix
from reconet.inference.protocol import Protocol
from reconet.inference.windows import predict_labels
from reconet.models.features import Features
from reconet.models.segmenter import Segmenter
from reconet.system.distributed import Processes
from reconet.system.progress import SILENT, Progress


class FeatureBatch(NamedTuple):
    """One process's share of a step."""

    step: int
    inputs: Features  # fp16; stages that were not cached are empty
    label_bhw: Tensor  # uint8
    names: tuple[str, ...]
    skipped: tuple[str, ...] = ()


def feature_batches(
    stores: Sequence[Store], order: BatchOrder, names: Sequence[str]
) -> Iterator[FeatureBatch]:
    """Read the batches of an order. The stores hold views of `names`, one image after another."""
    views = stores[0].count // len(names)
    in_epoch = steps_per_epoch(len(names), order.batch)
    for slots in order:
        view = slots[0].step // in_epoch % views
        stacked = {
            store.name: torch.from_numpy(
                np.stack([store.read(slot.image * views + view) for slot in slots])
            )
            for store in stores
        }
        yield FeatureBatch(
            step=slots[0].step,
            label_bhw=stacked.pop(LABEL),
            inputs=_as_features(stacked),
            names=tuple(names[slot.image] for slot in slots),
        )


def _as_features(stages: dict[str, Tensor]) -> Features:
    return Features(*(stages.get(name, torch.empty(0)) for name in Features._fields))


@torch.no_grad()
def count_feature_confusion(
    model: Segmenter,
    stores: Sequence[Store],
    dataset: Dataset,
    processes: Processes,
    protocol: Protocol,
    stop: Callable[[], bool] = lambda: False,
    progress: Progress = SILENT,
) -> Confusion:
    """Count (true, predicted) pairs as reconet.evaluation does, without the backbone.

    Logits are read at the pixels of each image, whose own pixels are not needed.
    """
    was_training, device = model.training, processes.device
    model.eval()
    count_kk = torch.zeros(model.num_classes, model.num_classes, dtype=torch.int64, device=device)
    stopped = False
    try:
        with processes.together():
            for index in range(processes.rank, len(dataset), processes.size):
                label_hw = torch.from_numpy(read_label(dataset, index)).to(device)
                maps = {store.name: torch.from_numpy(store.read(index).copy()) for store in stores}
                features = _as_features({n: x[None].to(device).float() for n, x in maps.items()})
                logits_bkij = model.coarse_from(features)
                blank = torch.zeros((), dtype=torch.uint8, device=device)
                predicted_hw = predict_labels(
                    lambda _, logits_bkij=logits_bkij: logits_bkij,  # type: ignore[misc]
                    blank.expand(*label_hw.shape, 3),
                    protocol,
                    model.num_classes,
                    whole=True,  # the features are of whole images, however large
                )
                count_kk += confusion_matrix(label_hw, predicted_hw, model.num_classes)
                progress.advance()
                if stopped := stop():
                    break
    finally:
        model.train(was_training)
    if processes.sum(torch.tensor(float(stopped), device=device)):
        raise StoppedError("stopped before the last image.")
    return Confusion(processes.sum(count_kk).cpu(), skipped=0)
