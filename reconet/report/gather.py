"""What a run directory tells, and what its best network says to the validation images."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic_core import PydanticUndefined

from reconet.data import open_split
from reconet.data.dataset import Dataset, spread
from reconet.engine.rundir import read_log
from reconet.errors import ReconetError, TrainingError
from reconet.evaluation.benchmarks import benchmark_scores, score_figures
from reconet.evaluation.evaluate import check_classes, evaluate
from reconet.inference.protocol import Protocol
from reconet.inference.windows import labels
from reconet.models.segmenter import Segmenter
from reconet.models.trained import load_trained
from reconet.recipes.schema import Recipe, list_settings
from reconet.recipes.storage import read_recipe
from reconet.report.charts import Point
from reconet.report.images import View, view
from reconet.system.distributed import World
from reconet.system.run_files import BEST, RECIPE, STARTS
from reconet.types import Colour

Tell = Callable[[str], None]  # progress, one line


class Setting(NamedTuple):
    name: str
    value: str
    about: str
    changed: bool  # differs from its default, or has none


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The best network of a run on the validation split."""

    step: int
    classes: tuple[str, ...]
    palette: tuple[Colour, ...]
    count_kk: NDArray[np.int64]
    figures: dict[str, float]
    iou: tuple[float, ...]
    views: tuple[View, ...]
    images: int  # in the split
    protocol: str


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """A run as a report needs it; `missing` says why a part of it cannot be shown."""

    name: str
    directory: Path
    recipe: Recipe
    log: tuple[Mapping[str, Any], ...]
    answers: Answers | None
    missing: tuple[str, ...] = ()
    starts: tuple[Mapping[str, Any], ...] = ()  # of its training: when, and on what

    @property
    def what(self) -> str:
        """Dataset and split, as in a sentence."""
        return f"{self.recipe.data.name} {self.recipe.data.val_split}"

    def curve(self, kind: str, figure: str, factor: float = 1.0) -> list[Point]:
        lines = [line for line in self.log if line["kind"] == kind]
        return [(line["step"], factor * line[figure]) for line in lines if _is_number(line, figure)]

    def best(self) -> Mapping[str, Any] | None:
        """The validation with the highest mIoU."""
        lines = [line for line in self.log if line["kind"] == "val" and _is_number(line, "miou")]
        finite = [line for line in lines if math.isfinite(line["miou"])]
        return max(finite, key=lambda line: float(line["miou"]), default=None)

    def step(self) -> int:
        return max((line["step"] for line in self.log), default=0)


def gather(run: Path, name: str, world: World, *, images: int, tell: Tell) -> Gathered:
    directory = run.parent if run.is_file() else run
    if not (directory / RECIPE).is_file():
        raise TrainingError(f"{run} holds no run: there is no {RECIPE}.")
    recipe = read_recipe(directory / RECIPE)
    log = tuple(line for line in read_log(directory) if _is_line(line))
    missing = []
    if not any(line["kind"] == "train" for line in log):
        missing.append("its log holds no training yet, so there are no curves of it")
    if not any(line["kind"] == "val" for line in log):
        missing.append("it was never validated, so there is no curve of its scores")
    if any(line.get("seen_in_training") for line in log):
        missing.append("its validation images are also trained on: scores are not of new ones")
    answers: Answers | None = None
    if not (directory / BEST).is_file():
        if not log:
            raise TrainingError(f"{run} has nothing to report yet: no log and no {BEST}.")
        missing.append(f"there is no {BEST}, which a run writes at its validations: no images")
    else:
        try:
            answers = _ask(directory, name, world, images, tell)
        except ReconetError as error:
            if world.size > 1:  # the other processes wait for this one: end them all
                raise
            missing.append(f"its best network could not be asked: {error}".rstrip("."))
    return Gathered(
        name=name,
        directory=directory,
        recipe=recipe,
        log=log,
        answers=answers,
        missing=tuple(missing),
        starts=tuple(read_log(directory, STARTS)),
    )


def _ask(directory: Path, name: str, world: World, images: int, tell: Tell) -> Answers:
    trained = load_trained(directory)
    data = trained.info.recipe.data
    dataset = open_split(data, data.val_split)
    check_classes(trained.info.classes, dataset, "it")
    model = trained.model.to(world.device)
    seen = 0

    def tick() -> None:
        nonlocal seen
        seen += 1
        tell(f"{name}: image {seen * world.size} of {len(dataset)}")

    protocol = Protocol.in_training(data)
    count_kk = evaluate(
        model, dataset, world, protocol=protocol, workers=data.workers, on_image=tick
    ).cpu()
    if not count_kk.sum():
        raise TrainingError(f"{data.name} {data.val_split} has no labels to score against")
    iou_k = benchmark_scores(count_kk, data.name, trained.info.classes).iou_k
    views: tuple[View, ...] = ()
    if world.leads:
        views = tuple(_views(model, dataset, world.device, protocol, images))
    return Answers(
        step=trained.info.step,
        classes=trained.info.classes,
        palette=trained.info.palette,
        count_kk=count_kk.numpy(),
        figures=score_figures(count_kk, data.name, trained.info.classes),
        iou=tuple(iou_k.tolist()),
        views=views,
        protocol=str(protocol),
        images=len(dataset),
    )


def _views(
    model: Segmenter, dataset: Dataset, device: torch.device, protocol: Protocol, count: int
) -> Sequence[View]:
    """Images spread over the split; the same ones for every network."""
    result = []
    for sample in spread(dataset, count):
        image_hwc = torch.from_numpy(sample.image_hwc).to(device)
        said_hw = labels(model.coarse, image_hwc, protocol, model.num_classes).cpu().numpy()
        result.append(view(sample.name, sample.image_hwc, sample.label_hw, said_hw))
    return result


def settings(recipe: Recipe) -> list[Setting]:
    """Every setting, and whether it is another than the default."""
    result = []
    for name, value, about in list_settings(recipe):
        group, key = name.split(".")
        default = type(getattr(recipe, group)).model_fields[key].default
        text = _text(value)
        changed = default is PydanticUndefined or _text(default) != text
        result.append(Setting(name, text, about, changed))
    return result


def _is_line(line: object) -> bool:
    return (
        isinstance(line, dict)
        and isinstance(line.get("kind"), str)
        and isinstance(line.get("step"), int)
    )


def _is_number(line: Mapping[str, Any], figure: str) -> bool:
    return isinstance(line.get(figure), int | float)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
