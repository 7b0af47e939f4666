"""What a grid has found, as rows: means and intervals over seeds, beside the paper's numbers."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reconet.recipes.schema import Recipe
from reconet.study.run_trial import LIVENESS, CellResult, read_result
from reconet.study.scheduler import Cell
from reconet.study.variants import Study
from reconet.study.paper_scores import PAPER
from reconet.study.stats import Estimate, estimate, paired
from reconet.system.paths import short_path, short_paths

FIGURE = "miou"
HEAD = (
    *("variant", "mIoU %", "95 %", "seeds", "to baseline", "95 %", "params M", "MACs G", "img/s"),
    *("spread of A", "eff. rank", "spread of lambda", "between images", "paper %"),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One variant. Scores are fractions, as everywhere; only tables speak of per cent."""

    variant: str
    about: str
    cells: tuple[CellResult, ...]
    score: Estimate | None  # None: no cell is finished
    difference: Estimate | None  # to the baseline, over the same seeds
    paper: float | None  # per cent, as printed

    def mean(self, name: str) -> float | None:
        """Of a liveness figure at the last validation, over seeds."""
        ends = [cell.trajectory[-1] for cell in self.cells if cell.trajectory]
        values = [end[name] for end in ends if name in end]
        return sum(values) / len(values) if values else None

    def between_images(self) -> float | None:
        seen = [c.spectrum.between_images for c in self.cells if c.spectrum is not None]
        return sum(seen) / len(seen) if seen else None

    def speed(self) -> float | None:
        speeds = [c.images_per_second for c in self.cells if c.images_per_second is not None]
        return sum(speeds) / len(speeds) if speeds else None


@dataclass(frozen=True, kw_only=True)
class StudyResult:
    study: Study
    recipe: Recipe
    seeds: tuple[int, ...]
    rows: tuple[Row, ...]
    missing: tuple[str, ...]  # cells that are not there, and why
    out: Path


def gather(study: Study, recipe: Recipe, cells: Sequence[Cell], out: Path) -> StudyResult:
    found = {cell.name: read_result(cell.directory) for cell in cells}
    names = list(dict.fromkeys(cell.variant.name for cell in cells))
    scores = {
        name: {
            cell.seed: result.figures[FIGURE]
            for cell in cells
            if cell.variant.name == name and (result := found[cell.name]) is not None
        }
        for name in names
    }
    rows = []
    for name in names:
        mine = [cell for cell in cells if cell.variant.name == name]
        results = tuple(r for cell in mine if (r := found[cell.name]) is not None)
        base = {} if name == study.baseline else scores.get(study.baseline, {})
        rows.append(
            Row(
                variant=name,
                about=mine[0].variant.about,
                cells=results,
                score=estimate(list(scores[name].values())) if scores[name] else None,
                difference=paired(scores[name], base),
                paper=PAPER[study.name].miou.get(name) if study.name in PAPER else None,
            )
        )
    return StudyResult(
        study=study,
        recipe=recipe,
        seeds=tuple(dict.fromkeys(cell.seed for cell in cells)),
        rows=tuple(rows),
        missing=tuple(_missing(cell) for cell in cells if found[cell.name] is None),
        out=out,
    )


def _missing(cell: Cell) -> str:
    return f"{cell.name}: {cell.failure() or 'not finished'}"


def table_rows(result: StudyResult) -> list[list[str]]:
    """The cells of HEAD, as text; a dash where there is nothing to say."""
    return [_texts(row, row.variant == result.study.baseline) for row in result.rows]


def _texts(row: Row, is_baseline: bool) -> list[str]:
    score, difference = row.score, row.difference
    one = row.cells[0] if row.cells else None
    return [
        row.variant,
        _number(_percent(score), 2),
        _half(score),
        str(len(row.cells)),
        "baseline" if is_baseline else _number(_percent(difference), 2, sign=True),
        _half(difference),
        _number(None if one is None else one.params / 1e6, 3),
        _number(None if one is None else one.macs / 1e9, 3),
        _number(row.speed(), 1),
        *(
            _number(row.mean(name), digits)
            for name, digits in zip(LIVENESS, (3, 2, 4), strict=True)
        ),
        _number(row.between_images(), 3),
        "-" if row.paper is None else f"{row.paper:g}",
    ]


def _percent(value: Estimate | None) -> float | None:
    return None if value is None else 100 * value.mean


def _half(value: Estimate | None) -> str:
    if value is None or value.half_width is None:
        return "-"
    return f"± {100 * value.half_width:.2f}"


def _number(value: float | None, digits: int, *, sign: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"


def conditions(result: StudyResult) -> list[tuple[str, str]]:
    """Without these the figures mean little."""
    recipe = result.recipe
    cells = [cell for row in result.rows for cell in row.cells]
    model, data, train = recipe.model, recipe.data, recipe.train
    crop = f"{data.crop[0]} x {data.crop[1]}"
    length = f"{cells[0].steps} steps" if cells else f"{train.steps or train.epochs}"
    protocols = dict.fromkeys(cell.protocol for cell in cells)
    places = dict.fromkeys(cell.environment.get("processor", "?") for cell in cells)
    versions = dict.fromkeys(f"torch {cell.environment.get('torch', '?')}" for cell in cells)
    amount = f", {json.dumps(short_paths(data.options))}" if data.options else ""
    weights = f"from {short_path(model.weights)}" if model.weights else "fresh"
    return [
        ("data", f"{data.name} {data.train_split} / {data.val_split}, crop {crop}{amount}"),
        (
            "network",
            f"{model.backbone} x {model.width:g}, output stride {model.output_stride}, rank "
            f"{model.rank or 64}, weights {weights}",
        ),
        ("training", f"{length} of {train.batch} images, lr {recipe.optim.lr:g}"),
        ("seeds", ", ".join(map(str, result.seeds))),
        ("score", "of the network at the last step; " + " | ".join(protocols)),
        ("machine", "; ".join([*places, *versions])),
    ]


CAPTION = (
    "95 %: half of Student's interval over seeds; differences are taken seed by seed. Each "
    "interval stands for itself: among twenty rows one is expected to miss. Params and MACs: one "
    "crop, in use. img/s: median in training, with whatever else the machine did. Spread of A and "
    "of lambda: standard deviation over mean; between images: the same for A at one place and "
    "channel"
)


def caption(result: StudyResult) -> list[str]:
    lines = [f"baseline: {result.study.baseline}", CAPTION]
    if all(row.variant != result.study.baseline for row in result.rows):
        lines[0] = f"the baseline, {result.study.baseline}, was left out: no differences"
    if result.study.name in PAPER:
        lines.append(f"paper: {PAPER[result.study.name].source}")
    return lines


def as_dict(result: StudyResult) -> dict[str, Any]:
    """Plain values for JSON."""
    return {
        "study": result.study.name,
        "question": result.study.question,
        "baseline": result.study.baseline,
        "out": str(result.out),
        "seeds": list(result.seeds),
        "recipe": result.recipe.model_dump(mode="json"),
        "conditions": dict(conditions(result)),
        "rows": [
            {
                "variant": row.variant,
                "about": row.about,
                "score": row.score and asdict(row.score),
                "difference": row.difference and asdict(row.difference),
                "paper": row.paper,
                "cells": [asdict(cell) for cell in row.cells],
            }
            for row in result.rows
        ],
        "missing": list(result.missing),
    }
