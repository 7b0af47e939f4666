"""Score a network on cached features of whole images."""

from collections.abc import Callable

import torch

from reconet.cache.batches import as_features
from reconet.cache.store import Store, StoreGroup
from reconet.data.dataset import Dataset, read_label
from reconet.evaluation.confusion import Confusion, StoppedError
from reconet.evaluation.metrics import confusion_matrix
from reconet.inference.protocol import Protocol
from reconet.inference.windows import predict_labels
from reconet.models.segmenter import Segmenter
from reconet.system.distributed import Processes
from reconet.system.progress import SILENT, Progress


@torch.no_grad()
def count_feature_confusion(
    model: Segmenter,
    store: Store | StoreGroup,
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
                stages = {n: torch.from_numpy(a.copy())[None] for n, a in store.read(index).items()}
                features = as_features({n: x.to(device).float() for n, x in stages.items()})
                logits_bkij = model.coarse_from(features)
                blank_hwc = torch.zeros((), dtype=torch.uint8, device=device).expand(
                    *label_hw.shape, 3
                )
                predicted_hw = predict_labels(
                    lambda _, logits_bkij=logits_bkij: logits_bkij,  # type: ignore[misc]
                    blank_hwc,
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
