"""Compare networks on the same images, and say whether the difference is more than chance.

Each network is compared with the first. All see the same resamples (intervals.py), so that images
that are hard for all of them cancel out.

Dimensions: n images, k classes.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reconet.errors import DataError, RecipeError
from reconet.evaluation.evaluate import Evaluation, evaluate
from reconet.evaluation.intervals import ImageCounts, Interval, differences, iou
from reconet.recipes.schema import Data, Recipe
from reconet.system.progress import SILENT, Progress

MOST_IMAGES = 10  # that are listed


@dataclass(frozen=True, kw_only=True)
class ImageDifference:
    """The part of an image's labelled pixels that two networks have right."""

    name: str
    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The scores of `after` minus those of `before`, as fractions."""

    before: str
    after: str
    miou: Interval
    boundary_iou: Interval
    iou: dict[str, Interval]  # of the classes that both have an IoU of
    images: tuple[ImageDifference, ...]  # on which they differ most

    @property
    def verdict(self) -> str:
        """Say which network has the better mIoU."""
        if not self.miou.excludes_zero:
            return f"{self.after} and {self.before} cannot be told apart on these images"
        return f"{self.after if self.miou.low > 0 else self.before} is better"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The scores of networks, and how each differs from the first."""

    networks: tuple[str, ...]
    scores: tuple[Evaluation, ...]
    differences: tuple[Difference, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        scores = [
            {"network": name, **score.as_dict()}
            for name, score in zip(self.networks, self.scores, strict=True)
        ]
        changes = [{"verdict": one.verdict, **asdict(one)} for one in self.differences]
        return {"format": 1, "networks": scores, "differences": changes}


def compare(
    sources: Sequence[str | Path],
    *,
    split: str | None = None,
    root: Path | None = None,
    device: str = "auto",
    change: Callable[[Recipe], Recipe] = lambda recipe: recipe,
    progress: Progress = SILENT,
) -> Comparison:
    """Score networks on the images of the first one, each by the protocol of its recipe.

    Counts that `evaluate` has kept in a run directory are used if they are of the same.
    """
    if len(sources) < 2:
        raise RecipeError("compare takes two networks or more.")
    if int(os.environ.get("WORLD_SIZE", "1") or 1) > 1:
        raise RecipeError(
            "compare is for one process: leave out torchrun. It uses what `torchrun ... evaluate "
            "RUN` has counted."
        )
    scores: list[Evaluation] = []
    data: Data | None = None
    for source in sources:
        score = evaluate(
            source,
            data=data,
            split=split or (scores[0].split if scores else None),
            root=root,
            device=device,
            change=change,
            reuse=True,
            progress=progress,
        )
        assert score is not None
        data = score.data
        scores.append(score)
    names = tuple(str(source) for source in sources)
    return Comparison(
        networks=names,
        scores=tuple(scores),
        differences=tuple(
            _difference(names[0], scores[0], name, score)
            for name, score in zip(names[1:], scores[1:], strict=True)
        ),
    )


def _difference(before: str, first: Evaluation, after: str, other: Evaluation) -> Difference:
    assert first.counts is not None
    assert other.counts is not None
    if first.counts.names != other.counts.names:
        raise DataError(f"{before} and {after} were not scored on the same images.")
    values = [(first.iou[name], other.iou[name]) for name in first.iou]
    scored_k = np.array([a == a or b == b for a, b in values])  # nan: the mean leaves it out
    both_k = np.array([a == a and b == b for a, b in values])
    before_n3k, after_n3k = first.counts.regions(), other.counts.regions()
    edges_n3k, edges_after_n3k = first.counts.edges(), other.counts.edges()
    (miou,) = differences(before_n3k[..., scored_k], after_n3k[..., scored_k])
    (boundary_iou,) = differences(edges_n3k[..., scored_k], edges_after_n3k[..., scored_k])
    by_class = differences(before_n3k[..., both_k], after_n3k[..., both_k], iou)
    classes = [name for name, known in zip(first.iou, both_k, strict=True) if known]
    return Difference(
        before=before,
        after=after,
        miou=miou,
        boundary_iou=boundary_iou,
        iou=dict(zip(classes, by_class, strict=True)),
        images=_most_different(first.counts, other.counts),
    )


def _most_different(before: ImageCounts, after: ImageCounts) -> tuple[ImageDifference, ...]:
    """Return the images on which the parts of right pixels differ most, if they differ."""
    right_n, true_n, _ = np.moveaxis(before.regions().sum(2), 1, 0)
    right_after_n = after.regions()[:, 0].sum(1)
    pixels_n = np.maximum(true_n, 1)
    order_n = np.argsort(-np.abs(right_after_n - right_n) / pixels_n, kind="stable")
    return tuple(
        ImageDifference(
            name=before.names[n],
            before=float(right_n[n] / pixels_n[n]),
            after=float(right_after_n[n] / pixels_n[n]),
        )
        for n in order_n[:MOST_IMAGES]
        if right_n[n] != right_after_n[n]
    )
