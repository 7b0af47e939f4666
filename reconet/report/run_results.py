"""Read a run directory: its log, and how its best network did."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from reconet.engine import read_log, read_starts
from reconet.errors import ReconetError, TrainingError
from reconet.evaluation import Evaluation, KeptImage, best_evaluation, best_images
from reconet.evaluation.benchmarks import score_labels
from reconet.models.trained import find_weights, read_info
from reconet.recipes import read_recipe
from reconet.recipes.schema import Recipe, list_settings
from reconet.report.html import Point, percent
from reconet.system.distributed import Processes
from reconet.system.progress import SILENT, Progress
from reconet.system.run_files import BEST, RECIPE
from reconet.types import Colour, Palette


@dataclass(frozen=True, kw_only=True)
class RunResults:
    """A run as a report shows it. `missing` says why parts cannot be shown."""

    name: str
    recipe: Recipe
    log: tuple[Mapping[str, Any], ...] = ()
    score: Evaluation | None = None  # of the best network
    classes: tuple[str, ...] = ()
    palette: Palette = ()
    images: tuple[KeptImage, ...] = ()
    missing: tuple[str, ...] = ()
    starts: tuple[Mapping[str, Any], ...] = ()  # when and on which machine it was trained

    @property
    def split(self) -> str:
        """Name the dataset and the validation split."""
        return f"{self.recipe.data.title} {self.recipe.data.val_split}"

    @property
    def scored_by(self) -> tuple[object, ...]:
        """Return all that must be equal in two runs for their scores to be compared."""
        if self.score is None:
            return ()
        names, root = tuple(one.name for one in self.images), self.recipe.data.root
        place = None if root is None else root.expanduser().absolute()
        return self.split, place, self.classes, self.score.images, names, self.score.protocol

    def curve(self, kind: str, value: str, factor: float = 1.0) -> list[Point]:
        """Return a value of the log by step, from lines of one kind."""
        lines = [line for line in self.log if line["kind"] == kind]
        return [(line["step"], factor * line[value]) for line in lines if _is_number(line, value)]

    def last_step(self) -> int:
        return max((line["step"] for line in self.log), default=0)

    def key_figures(self) -> Iterator[tuple[str, str]]:
        """Yield the scores and the number of steps, each a value and its name."""
        if self.score is not None:
            for key, label in score_labels().items():
                if key in self.score.figures:
                    yield percent(self.score.figures[key]), label
            yield f"{self.score.step:,}", "step of the best network"
        else:
            logged = [point for point in self.curve("val", "miou") if math.isfinite(point[1])]
            if logged:
                step, miou = max(logged, key=lambda point: point[1])
                yield percent(miou), f"mIoU, logged at step {step:,}"
        yield f"{self.last_step():,}", "steps trained"

    def best_classes(self) -> list[tuple[str, float, Colour]]:
        """List classes with IoU and colour, the best first."""
        assert self.score
        iou = self.score.iou
        rows = [(n, iou[n], c) for n, c in zip(self.classes, self.palette, strict=True)]
        return sorted(rows, key=lambda row: -1 if math.isnan(row[1]) else row[1], reverse=True)

    def settings(
        self, code: Callable[[str], str], is_changed: bool
    ) -> Iterator[tuple[str, str, str]]:
        """Yield the settings that have, or do not have, their default: name, value, meaning."""
        for name, value, about in list_settings(self.recipe):
            group, _, key = name.rpartition(".")
            default = type(attrgetter(group)(self.recipe)).model_fields[key].default
            changed = default is PydanticUndefined or setting_text(default) != setting_text(value)
            if changed is is_changed:
                yield name, code(setting_text(value)), about


def read_run(
    run: Path, name: str, processes: Processes, *, images: int, progress: Progress = SILENT
) -> RunResults:
    """Read the log of a run and the validation of its best network, and validate it if need be."""
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
    best: dict[str, Any] = {}
    if not (directory / BEST).is_file():
        if not log:
            raise TrainingError(f"{run} has nothing to report yet: no log and no {BEST}.")
        missing.append(f"there is no {BEST} yet, which a validation writes, so there are no images")
    else:
        what = "the best network could not be scored"
        try:
            info = read_info(find_weights(directory))
            best = {"classes": info.classes, "palette": info.palette}
            best["score"] = best_evaluation(directory, processes, progress)
            what = "the images cannot be shown"
            if processes.is_first:
                best["images"] = tuple(best_images(directory, processes.device, images))
        except ReconetError as error:
            if processes.size > 1:  # the other processes wait for this one: end them all
                raise
            missing.append(f"{what}: {error}".rstrip("."))
    return RunResults(
        name=name,
        recipe=recipe,
        log=log,
        missing=tuple(missing),
        starts=tuple(read_starts(directory)),
        **best,
    )


def setting_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _is_number(line: Mapping[str, Any], name: str) -> bool:
    return isinstance(line.get(name), int | float)
