"""Write the report of one run, or of several compared.

A report reads what the training kept: recipe, log, and how its best network did in its validation.
"""

import json
import math
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import PydanticUndefined

from reconet.data.classes import photograph_palette
from reconet.engine import read_log, read_starts
from reconet.errors import RecipeError, ReconetError, TrainingError
from reconet.evaluation import Evaluation, KeptImage, best_evaluation, best_images
from reconet.evaluation.metrics import score_labels
from reconet.models.trained import find_weights, read_info
from reconet.recipes import Recipe, list_settings, read_recipe
from reconet.report.html import Series, confusion_matrix, html_page, is_page, line_chart, percent
from reconet.system.distributed import Processes, pick_device
from reconet.system.files import check_output_file, write_text
from reconet.system.hardware import environment
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted, split_name
from reconet.system.run_files import BEST, RECIPE, REPORT
from reconet.types import Colour, Palette

MACHINE = ("processes", "reconet", "torch", "processor", "GPU", "system")  # keys of a start


class Curve(NamedTuple):
    """A value of the log that is drawn as a curve."""

    title: str
    kind: str  # of the line in the log
    value: str
    about: str = ""
    low: float | None = 0.0  # where the axis begins; None: near the lowest value
    percent: bool = False


CURVES = (
    Curve("Loss", "train", "loss", "main and auxiliary, mean since the last line"),
    Curve("mIoU, %", "val", "miou", "on the validation split", low=None, percent=True),
    Curve("Pixel accuracy, %", "val", "pixel_accuracy", "the same", low=None, percent=True),
    Curve("Learning rate", "train", "lr", "the base rate"),
    Curve("Spread of the attention", "val", "attention_spread", "standard deviation over mean"),
    Curve("Effective rank of the attention", "val", "effective_rank", "of channels", low=1.0),
    Curve("Spread of lambda", "val", "lambda_spread", "standard deviation over mean"),
    Curve("Images a second", "train", "images_per_second", "in training"),
)


def write_report(
    runs: Sequence[Path],
    out: Path | None = None,
    *,
    images: int = 8,
    device: str = "auto",
    progress: Progress = SILENT,
) -> Path | None:
    """Report on one run, or compare several. Of several processes only the first one writes."""
    if not runs:
        raise RecipeError("a report needs a run directory.")
    names, path = _run_names(runs), _report_path(runs, out)
    check_output_file(path, lambda file: is_page(file, "report"))
    if int(os.environ.get("RANK", 0)) > 0:
        return None
    processes = Processes.single(pick_device(device))
    results = [
        read_run(run, name, processes, images=images, progress=progress)
        for run, name in zip(runs, names, strict=True)
    ]
    for result in results:
        for reason in result.missing:
            progress.note(f"{result.name}: {reason}")
    options = [*([] if out is None else ["--out", str(out)]), "--images", str(images)]
    page = html_page(
        "report.html",
        kind="report",
        title=names[0] if len(names) == 1 else f"{len(names)} runs compared",
        runs=results,
        charts=_charts(results),
        **(_comparison(results) if len(results) > 1 else {}),
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        compare_command=shlex.join(["reconet", "compare", *map(str, runs)]),
        command=shlex.join(["reconet", "report", *map(str, runs), *options]),
        environment=environment(processes.device),
        trainings=[
            shlex.join(["reconet", "train", f"{run}/{RECIPE}", "--out", f"{run}-again"])
            for run in runs
            if run.is_dir()
        ],
        start_head=("run", "from step", *MACHINE),
        starts=[
            (run.name, *(str(start.get(key, "-")) for key in ("step", *MACHINE)))
            for run in results
            for start in run.starts
        ],
        confusion_matrix=confusion_matrix,
        counted=counted,
        png="data:image/png;base64,",
        jpeg="data:image/jpeg;base64,",
    )
    write_text(path, page)
    return path


def _report_path(runs: Sequence[Path], out: Path | None) -> Path:
    """Return where the report goes. A folder gets a report.html."""
    if out is None and len(runs) > 1:
        return Path(REPORT)
    path = out or (runs[0] if runs[0].is_dir() else runs[0].parent)
    return path / REPORT if path.is_dir() else path


def _run_names(runs: Sequence[Path]) -> list[str]:
    """Name each run by the shortest end of its path that no other run has."""
    paths = [(run.parent if run.is_file() else run).resolve() for run in runs]
    if len(set(paths)) < len(paths):
        raise RecipeError("the same run is named twice.")
    for length in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            break
    return names


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
        data = self.recipe.data
        return split_name(data.name, data.val_split, data.title)

    @property
    def scored_by(self) -> tuple[object, ...]:
        """Return all that must be equal in two runs for their scores to be compared."""
        if self.score is None:
            return ()
        names, root = tuple(one.name for one in self.images), self.recipe.data.root
        place = None if root is None else root.expanduser().absolute()
        return self.split, place, self.classes, self.score.images, names, self.score.protocol

    def curve(self, kind: str, value: str, factor: float = 1.0) -> list[tuple[float, float]]:
        """Return a value of the log by step, from lines of one kind."""
        return [
            (line["step"], factor * line[value])
            for line in self.log
            if line["kind"] == kind and isinstance(line.get(value), int | float)
        ]

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
            changed = default is PydanticUndefined or _setting_text(default) != _setting_text(value)
            if changed is is_changed:
                yield name, code(_setting_text(value)), about


def read_run(
    run: Path, name: str, processes: Processes, *, images: int, progress: Progress = SILENT
) -> RunResults:
    """Read the log of a run and the validation of its best network.

    A run that did not keep its validation, such as one of 0.1.0, is validated again.
    """
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
            best = {"classes": info.classes, "palette": photograph_palette(info.palette)}
            best["score"] = best_evaluation(directory, processes, progress)
            what = "the images cannot be shown"
            best["images"] = tuple(best_images(directory, processes.device, images))
        except ReconetError as error:
            missing.append(f"{what}: {error}".rstrip("."))
    return RunResults(
        name=name,
        recipe=recipe,
        log=log,
        missing=tuple(missing),
        starts=tuple(read_starts(directory)),
        **best,
    )


def _setting_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _charts(runs: Sequence[RunResults]) -> list[dict[str, Any]]:
    """Return one chart for each value that any run has logged, with all runs in it."""
    charts = []
    for curve in CURVES:
        factor, unit = (100.0, " %") if curve.percent else (1.0, "")
        series = [
            Series(run.name, run.curve(curve.kind, curve.value, factor), number)
            for number, run in enumerate(runs)
        ]
        charts.append(line_chart(curve.title, series, about=curve.about, unit=unit, low=curve.low))
    return [chart for chart in charts if chart is not None]


def _comparison(runs: Sequence[RunResults]) -> dict[str, Any]:
    """Return what a page about several runs shows beside what each of them has."""
    scored = [run for run in runs if run.score is not None]
    why_not = _why_not_comparable(scored)
    labels = score_labels()
    keys = [key for key in labels if any(run.score and key in run.score.figures for run in runs)]
    settings = zip(*(list_settings(run.recipe) for run in runs), strict=True)
    texts = [(same[0][0], *(_setting_text(value) for _, value, _ in same)) for same in settings]
    return {
        "protocols": sorted({run.score.protocol for run in runs if run.score}),
        "incomparable_scores": len({run.scored_by for run in scored}) > 1,
        "score_head": ["run", "scored on", *(labels[key] for key in keys), "best step", "steps"],
        "scores": [(run, list(_marked_scores(run, keys, runs))) for run in runs],
        "why_not": why_not,
        "side_by_side": scored if why_not is None and len(scored) > 1 else [],
        "differences": [row for row in texts if len(set(row[1:])) > 1],
    }


def _marked_scores(
    run: RunResults, keys: Sequence[str], runs: Sequence[RunResults]
) -> Iterator[tuple[float, bool]]:
    """Yield each score, and whether it is the best of several that can be compared with it."""
    figures = run.score.figures if run.score else {}
    rivals = [
        other.score.figures for other in runs if other.score and other.scored_by == run.scored_by
    ]
    for key in keys:
        value = figures.get(key, math.nan)
        yield value, len(rivals) > 1 and value >= max(other.get(key, -1.0) for other in rivals)


def _why_not_comparable(runs: Sequence[RunResults]) -> str | None:
    """Say why classes and images of these runs cannot stand side by side, if they cannot."""
    for first, other in pairwise(runs):
        both = f"{first.name} and {other.name}"
        if first.classes != other.classes:
            return f"{both} know different classes: each has its own below."
        first_images, other_images = ([one.name for one in run.images] for run in (first, other))
        if first_images != other_images or first.split != other.split:
            return f"{both} were scored on different images: each has its own below."
    return None
