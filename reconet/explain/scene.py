"""An image, what is true of it, and what a network says to one view of it."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from reconet.data.images.draw import VOID_COLOUR, colourise
from reconet.explain.draw import Cell
from reconet.explain.source import Source
from reconet.models.trained import TrainedNetwork
from reconet.types import Colour, Image, Label


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """The image with what is true of it and what the network says to this one view of it."""

    trained: TrainedNetwork
    source: Source
    seen_bchw: Tensor
    said_hw: Label

    @property
    def shape(self) -> tuple[int, int]:
        return self.said_hw.shape[0], self.said_hw.shape[1]

    def right(self) -> float | None:
        """The part of the labelled pixels that is right, if there are any."""
        truth_hw, classes = self.source.truth_hw, len(self.trained.info.classes)
        if truth_hw is None or not (truth_hw < classes).any():
            return None
        labelled_hw = truth_hw < classes
        return float(np.mean(self.said_hw[labelled_hw] == truth_hw[labelled_hw]))

    def key(self) -> list[tuple[str, Colour]]:
        """Classes that the figure shows, with their colours."""
        labels = [self.said_hw] + [one for one in [self.source.truth_hw] if one is not None]
        present = np.unique(np.concatenate([label_hw.ravel() for label_hw in labels]))
        names = list(zip(self.trained.info.classes, self.trained.info.palette, strict=True))
        void = [("unlabelled", VOID_COLOUR)] if (present >= len(names)).any() else []
        return [names[number] for number in present if number < len(names)] + void

    def coloured(self, label_hw: Label) -> Image:
        return colourise(label_hw, self.trained.info.palette)


def lead(scene: Scene) -> str:
    recipe, share = scene.trained.info.recipe, scene.right()
    height, width = scene.seen_bchw.shape[2:]
    right = ""
    if share is not None:
        right = f" {100 * share:.1f} % of its labelled pixels are right in this view."
    return (
        f"{recipe.model.context} on {recipe.model.backbone}, trained on {recipe.data.name} for "
        f"{scene.trained.info.step:,} steps. The image was shown once and whole, "
        f"{width} x {height} pixels.{right}"
    )


def answer(scene: Scene) -> str:
    """What it says of the image, in a line."""
    number_n, count_n = np.unique(scene.said_hw, return_counts=True)
    order = np.argsort(-count_n, kind="stable")[:3]
    classes, pixels = scene.trained.info.classes, scene.said_hw.size
    parts = [f"{classes[number_n[one]]} {100 * count_n[one] / pixels:.0f} %" for one in order]
    right = scene.right()
    truth = "" if right is None else f"; {100 * right:.1f} % of the labelled pixels are right"
    return f"says {', '.join(parts)}{truth}"


def labels(scene: Scene) -> list[Cell]:
    """Truth, if there is one, and prediction."""
    cells = [Cell("prediction", scene.coloured(scene.said_hw))]
    if scene.source.truth_hw is not None:
        cells.insert(0, Cell("truth", scene.coloured(scene.source.truth_hw)))
    return cells
