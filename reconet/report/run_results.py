"""Read a run directory, and score its best network on the validation images."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic_core import PydanticUndefined

from reconet.data import open_split
from reconet.data.dataset import Dataset, sample_evenly
from reconet.engine import read_log, read_starts
from reconet.errors import ReconetError, TrainingError
from reconet.evaluation import check_classes, count_model_confusion, no_labels_error
from reconet.evaluation.benchmarks import benchmark_scores, named_scores
from reconet.inference.protocol import Protocol
from reconet.inference.windows import predict_labels
from reconet.models.segmenter import Segmenter
from reconet.models.trained import load_trained
from reconet.recipes.schema import Recipe, list_settings
from reconet.recipes.storage import read_recipe
from reconet.report.html import Point
from reconet.report.image_rows import ImageRow, make_image_row
from reconet.system.distributed import Processes
from reconet.system.progress import SILENT, Progress
from reconet.system.run_files import BEST, RECIPE
from reconet.types import Palette


class Setting(NamedTuple):
    """A setting of a recipe, as text."""

    name: str
    value: str
    about: str
    changed: bool  # differs from its default, or has none


@dataclass(frozen=True, kw_only=True)
class ValidationResults:
    """The best network of a run, scored on the validation split."""

    step: int
    classes: tuple[str, ...]
    palette: Palette
    count_kk: NDArray[np.int64]
    scores: dict[str, float]
    iou: tuple[float, ...]  # of each class
    image_rows: tuple[ImageRow, ...]
    images: int  # in the split
    protocol: str


@dataclass(frozen=True, kw_only=True)
class RunResults:
    """A run as a report shows it. `missing` says why parts cannot be shown."""

    name: str
    directory: Path
    recipe: Recipe
    log: tuple[Mapping[str, Any], ...]
    validation: ValidationResults | None
    missing: tuple[str, ...] = ()
    starts: tuple[Mapping[str, Any], ...] = ()  # when and on which machine it was trained

    @property
    def split(self) -> str:
        """Name the dataset and the validation split."""
        return f"{self.recipe.data.title} {self.recipe.data.val_split}"

    @property
    def scored_by(self) -> tuple[object, ...]:
        """Return all that must be equal in two runs for their scores to be compared."""
        own = self.validation
        if own is None:
            return ()
        names = tuple(row.name for row in own.image_rows)
        root = self.recipe.data.root
        place = None if root is None else root.expanduser().absolute()
        return self.split, place, own.classes, own.images, names, own.protocol

    def curve(self, kind: str, value: str, factor: float = 1.0) -> list[Point]:
        """Return a value of the log by step, from lines of one kind."""
        lines = [line for line in self.log if line["kind"] == kind]
        return [(line["step"], factor * line[value]) for line in lines if _is_number(line, value)]

    def best(self) -> Mapping[str, Any] | None:
        """Return the line of the validation with the highest mIoU."""
        lines = [line for line in self.log if line["kind"] == "val" and _is_number(line, "miou")]
        finite = [line for line in lines if math.isfinite(line["miou"])]
        return max(finite, key=lambda line: float(line["miou"]), default=None)

    def last_step(self) -> int:
        return max((line["step"] for line in self.log), default=0)


def read_run(
    run: Path, name: str, processes: Processes, *, images: int, progress: Progress = SILENT
) -> RunResults:
    """Read the log of a run, and score its best network."""
    directory = run.parent if run.is_file() else run
    if not (directory / RECIPE).is_file():
        raise TrainingError(f"{run} holds no run: there is no {RECIPE}.")
    recipe = read_recipe(directory / RECIPE)
    log = tuple(read_log(directory))
    missing = []
    if not any(line["kind"] == "train" for line in log):
        missing.append("the log has no training steps yet, so there are no training curves")
    if not any(line["kind"] == "val" for line in log):
        missing.append("the run was never validated, so there are no curves of its scores")
    if any(line.get("seen_in_training") for line in log):
        missing.append(
            "the validation images are also training images, so the scores are not of new images"
        )
    validation: ValidationResults | None = None
    if not (directory / BEST).is_file():
        if not log:
            raise TrainingError(f"{run} has nothing to report yet: no log and no {BEST}.")
        missing.append(f"there is no {BEST} yet, which a validation writes, so there are no images")
    else:
        try:
            validation = _validate(directory, name, processes, images, progress)
        except ReconetError as error:
            if processes.size > 1:  # the other processes wait for this one: end them all
                raise
            missing.append(f"the best network could not be scored: {error}".rstrip("."))
    return RunResults(
        name=name,
        directory=directory,
        recipe=recipe,
        log=log,
        validation=validation,
        missing=tuple(missing),
        starts=tuple(read_starts(directory)),
    )


def _validate(
    directory: Path, name: str, processes: Processes, images: int, progress: Progress
) -> ValidationResults:
    trained = load_trained(directory)
    data = trained.info.recipe.data
    dataset = open_split(data, data.val_split)
    check_classes(trained.info.classes, dataset, "it")
    model = trained.model.to(processes.device)
    protocol = Protocol.in_training(data)
    progress.start(processes.share_of(len(dataset)), name)
    count_kk = count_model_confusion(
        model,
        dataset,
        processes,
        protocol=protocol,
        workers=data.workers,
        progress=progress,
    ).count_kk
    if not count_kk.sum():
        raise no_labels_error(dataset)
    rows: tuple[ImageRow, ...] = ()
    if processes.is_first:
        rows = tuple(_predict_rows(model, dataset, processes.device, protocol, images))
    iou_k = benchmark_scores(count_kk, data.name, trained.info.classes).iou_k
    return ValidationResults(
        step=trained.info.step,
        classes=trained.info.classes,
        palette=trained.info.palette,
        count_kk=count_kk.numpy(),
        scores=named_scores(count_kk, data.name, trained.info.classes),
        iou=tuple(iou_k.tolist()),
        image_rows=rows,
        protocol=str(protocol),
        images=len(dataset),
    )


def _predict_rows(
    model: Segmenter, dataset: Dataset, device: torch.device, protocol: Protocol, count: int
) -> list[ImageRow]:
    """Predict images at even distances in the split: the same ones for every network."""
    rows = []
    for sample in sample_evenly(dataset, count):
        image_hwc = torch.from_numpy(sample.image_hwc).to(device)
        label_hw = predict_labels(model.coarse, image_hwc, protocol, model.num_classes)
        predicted_hw = label_hw.cpu().numpy()
        rows.append(make_image_row(sample.name, sample.image_hwc, sample.label_hw, predicted_hw))
    return rows


def describe_settings(recipe: Recipe) -> list[Setting]:
    """List every setting, and whether it differs from its default."""
    result = []
    for name, value, about in list_settings(recipe):
        group, _, key = name.rpartition(".")
        default = type(attrgetter(group)(recipe)).model_fields[key].default
        text = _text(value)
        changed = default is PydanticUndefined or _text(default) != text
        result.append(Setting(name, text, about, changed))
    return result


def _is_number(line: Mapping[str, Any], name: str) -> bool:
    return isinstance(line.get(name), int | float)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
