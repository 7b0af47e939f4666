"""Scores of a network on a dataset: one confusion matrix over all pictures and all processes."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from reconet.data import open_dataset
from reconet.data.dataset import Dataset, Sample
from reconet.data.loader import samples
from reconet.errors import DataError
from reconet.metrics import Scores, confusion, scores
from reconet.models.segmenter import Segmenter
from reconet.models.trained import load_trained
from reconet.world import World, joined

PROTOCOL = "whole pictures at their own size, one scale, no flip"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Scores with all that one must know to read them."""

    dataset: str
    split: str
    pictures: int
    protocol: str
    step: int
    figures: dict[str, float]
    iou: dict[str, float]  # by class; NaN where a class is absent from truth and prediction

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, which has no NaN."""
        iou = {name: None if math.isnan(value) else value for name, value in self.iou.items()}
        return {**asdict(self), "iou": iou}


def evaluate_run(
    run: Path, *, split: str | None = None, root: Path | None = None, device: str = "auto"
) -> Evaluation | None:
    """Score a trained network. Of many processes only the leading one gets the result."""
    with joined(device) as world:
        trained = load_trained(run)
        data = trained.recipe.data
        dataset = open_dataset(data.name, split or data.val_split, root or data.root, data.options)
        if dataset.info.classes != trained.classes:
            raise DataError(
                f"{run} knows {len(trained.classes)} classes and {data.name} has "
                f"{len(dataset.info.classes)} others."
            )
        count_kk = evaluate(trained.model.to(world.device), dataset, world, workers=data.workers)
        if not world.leads:
            return None
        if count_kk.sum() == 0:
            raise DataError(f"{data.name} {dataset.split} has no labels to score against.")
        result = scores(count_kk)
        return Evaluation(
            dataset=data.name,
            split=dataset.split,
            pictures=len(dataset),
            protocol=PROTOCOL,
            step=trained.step,
            figures=score_figures(result),
            iou=dict(zip(trained.classes, result.iou_k.tolist(), strict=True)),
        )


def score_figures(result: Scores) -> dict[str, float]:
    return {
        "miou": result.mean_iou.item(),
        "pixel_accuracy": result.pixel_accuracy.item(),
        "mean_accuracy": result.mean_accuracy.item(),
        "frequency_weighted_iou": result.frequency_weighted_iou.item(),
    }


@torch.no_grad()
def evaluate(
    model: Segmenter,
    dataset: Dataset,
    world: World,
    *,
    workers: int = 0,
    on_picture: Callable[[], None] | None = None,
) -> Tensor:
    """count_kk of every picture at its own size; the same on every process."""
    if len(dataset) == 0:
        raise DataError(f"{dataset.info.name} has no pictures in split {dataset.split!r}.")
    was_training = model.training
    model.eval()
    classes = model.num_classes
    count_kk = torch.zeros(classes, classes, dtype=torch.int64, device=world.device)
    for sample in samples(dataset, rank=world.rank, world=world.size, workers=workers):
        assert isinstance(sample, Sample)
        image_hwc = torch.from_numpy(sample.image_hwc).to(world.device)
        label_hw = torch.from_numpy(sample.label_hw).to(world.device)
        logits_bkhw = model(image_hwc.permute(2, 0, 1)[None]).main_bkhw
        count_kk += confusion(label_hw, logits_bkhw.argmax(1)[0], classes)
        if on_picture is not None:
            on_picture()
    model.train(was_training)
    return world.total(count_kk)
