"""Scores of a network on a dataset: one confusion matrix over all images and all processes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reconet.data import open_split
from reconet.data.dataset import Dataset, Sample, has_labels
from reconet.data.loader import OnError, Skipped, samples
from reconet.errors import DataError, ReconetError
from reconet.evaluation.benchmarks import benchmark_scores, plain, score_figures
from reconet.evaluation.metrics import confusion
from reconet.evaluation.submit import Submission, open_submission
from reconet.inference.network import Network, open_network
from reconet.inference.protocol import WHOLE, Protocol
from reconet.inference.windows import Forward, labels
from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Recipe
from reconet.system.distributed import World, joined


class StoppedError(ReconetError):
    """Asked to stop before the last image."""


OnPrediction = Callable[[str, NDArray[np.uint8]], None]
OnImage = Callable[[], None]
OnSkip = Callable[[Skipped], None]
Stop = Callable[[], bool]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Scores with all that one must know to read them; none where a split has no labels."""

    dataset: str
    split: str
    images: int
    protocol: str
    step: int
    figures: dict[str, float]
    iou: dict[str, float]  # by class; NaN where it is absent from truth and prediction
    submission: str | None = None  # what to send to the test server
    count_kk: Tensor = field(repr=False)  # true class, predicted class; not in as_dict

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, which has no NaN."""
        values = {key: value for key, value in vars(self).items() if key != "count_kk"}
        return {key: plain(value) for key, value in values.items()}


def evaluate_run(
    run: Path,
    *,
    split: str | None = None,
    root: Path | None = None,
    device: str = "auto",
    change: Callable[[Recipe], Recipe] = lambda recipe: recipe,
    submit: Path | None = None,
    progress: Callable[[int], OnImage] | None = None,
) -> Evaluation | None:
    """Score a trained network by its recipe's protocol, which `change` may change.

    Of many processes only the leading one gets the result. `progress` is told the number of
    images that this process will see, and what it returns is called after each of them.
    """
    with joined(device) as world:
        network = open_network(run, world.device)
        recipe = change(network.info.recipe)
        data = recipe.data
        dataset = open_split(data, split or data.val_split, root)
        check_classes(network.info.classes, dataset, run)
        submission = _submission(dataset, data.name, submit)
        protocol = Protocol.of(recipe.eval, data)
        tick = progress(world.part_of(len(dataset))) if progress and world.leads else None
        count_kk = confusion_of(
            network.forward,
            len(network.info.classes),
            dataset,
            world,
            protocol=protocol,
            workers=data.workers,
            on_image=tick,
            on_prediction=submission.put if submission else None,
        )
        if not world.leads:
            return None
        sent = _finish(submission, dataset) if submission else None
        return _evaluation(network, dataset, protocol, count_kk, sent)


def evaluate(
    model: Segmenter,
    dataset: Dataset,
    world: World,
    *,
    protocol: Protocol = WHOLE,
    workers: int = 0,
    on_image: OnImage | None = None,
    on_skip: OnSkip | None = None,
    stop: Stop | None = None,
) -> Tensor:
    """count_kk of a network that may be in training; it is left as it was."""
    was_training = model.training
    model.eval()
    try:
        return confusion_of(
            model.coarse,
            model.num_classes,
            dataset,
            world,
            protocol=protocol,
            workers=workers,
            on_image=on_image,
            on_skip=on_skip,
            stop=stop,
        )
    finally:
        model.train(was_training)


@torch.no_grad()
def confusion_of(
    forward: Forward,
    classes: int,
    dataset: Dataset,
    world: World,
    *,
    protocol: Protocol = WHOLE,
    workers: int = 0,
    on_image: OnImage | None = None,
    on_prediction: OnPrediction | None = None,
    on_skip: OnSkip | None = None,
    stop: Stop | None = None,
) -> Tensor:
    """count_kk over every image at its own size; the same on every process.

    Images come one by one and nothing of them is kept. An image that cannot be read is an error
    on all processes, or goes to `on_skip`; so is a `stop` on any of them: a StoppedError.
    """
    if len(dataset) == 0:
        raise DataError(f"{dataset.info.name} has no images in split {dataset.split!r}.")
    count_kk = torch.zeros(classes, classes, dtype=torch.int64, device=world.device)
    error, stopped = None, False
    try:
        for sample in _mine(dataset, world, workers, on_skip):
            image_hwc = torch.from_numpy(sample.image_hwc).to(world.device)
            label_hw = torch.from_numpy(sample.label_hw).to(world.device)
            said_hw = labels(forward, image_hwc, protocol, classes)
            count_kk += confusion(label_hw, said_hw, classes)
            if on_prediction is not None:
                on_prediction(sample.name, said_hw.cpu().numpy())
            if on_image is not None:
                on_image()
            if stop is not None and stop():
                stopped = True
                break
    except ReconetError as raised:
        error = raised
    world.agree(error)
    if world.total(torch.tensor(float(stopped), device=world.device)):
        raise StoppedError("stopped before the last image.")
    return world.total(count_kk)


def _mine(dataset: Dataset, world: World, workers: int, on_skip: OnSkip | None) -> Iterator[Sample]:
    """The images of this process."""
    on_error: OnError = "skip" if on_skip else "raise"
    for sample in samples(
        dataset, rank=world.rank, world=world.size, workers=workers, on_error=on_error
    ):
        if not isinstance(sample, Skipped):
            yield sample
        elif on_skip is not None:
            on_skip(sample)


def nothing_scored(dataset: Dataset) -> DataError:
    """For a confusion matrix that is empty."""
    where = f"{dataset.info.name} {dataset.split}"
    return DataError(f"{where} has no labelled pixel to score against.")


def check_classes(known: tuple[str, ...], dataset: Dataset, whose: str | Path) -> None:
    """A network's answers mean something on a dataset only if it has the classes that it knows."""
    there = dataset.info.classes
    if known == there:
        return
    differ = next((f"{a!r} is {b!r}" for a, b in zip(known, there, strict=False) if a != b), "")
    raise DataError(
        f"{whose} knows {len(known)} classes and {dataset.info.name} has {len(there)} others"
        f"{f' (the first: {differ})' if differ else ''}."
    )


def _submission(dataset: Dataset, name: str, submit: Path | None) -> Submission | None:
    """Where predictions go, if they do; without labels there is no other use for them."""
    if submit is not None:
        return open_submission(name, dataset.split, submit)
    if not has_labels(dataset):
        raise DataError(
            f"{name} {dataset.split} has no labels to score against; --submit writes "
            "predictions for the test server."
        )
    return None


def _finish(submission: Submission, dataset: Dataset) -> str:
    return str(submission.finish([dataset.name(index) for index in range(len(dataset))]))


def _evaluation(
    network: Network, dataset: Dataset, protocol: Protocol, count_kk: Tensor, sent: str | None
) -> Evaluation:
    figures: dict[str, float] = {}
    iou: dict[str, float] = {}
    name, classes = network.info.recipe.data.name, network.info.classes
    if count_kk.sum() > 0:
        figures = score_figures(count_kk, name, classes)
        iou_k = benchmark_scores(count_kk, name, classes).iou_k
        iou = dict(zip(classes, iou_k.tolist(), strict=True))
    elif sent is None:
        raise nothing_scored(dataset)
    return Evaluation(
        dataset=name,
        split=dataset.split,
        images=len(dataset),
        protocol=str(protocol),
        step=network.info.step,
        figures=figures,
        iou=iou,
        submission=sent,
        count_kk=count_kk.cpu(),
    )
