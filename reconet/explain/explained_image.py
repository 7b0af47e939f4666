"""The image that is explained, with its labels and the prediction of a network."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from reconet.data.images.draw import VOID_COLOUR, colourise
from reconet.explain.draw import Panel
from reconet.explain.source import SourceImage
from reconet.models.trained import TrainedNetwork
from reconet.system.readable import counted
from reconet.types import Colour, Image, Label


@dataclass(frozen=True, kw_only=True, eq=False)
class ExplainedImage:
    """An image, its labels, and what a network predicts in one whole view of it."""

    trained: TrainedNetwork
    source: SourceImage
    input_bchw: Tensor
    predicted_hw: Label

    @property
    def shape(self) -> tuple[int, int]:
        return self.predicted_hw.shape[0], self.predicted_hw.shape[1]

    def accuracy(self) -> float | None:
        """Return the part of the labelled pixels that is right, or None if none has a label."""
        label_hw, classes = self.source.label_hw, len(self.trained.info.classes)
        if label_hw is None or not (label_hw < classes).any():
            return None
        labelled_hw = label_hw < classes
        return float(np.mean(self.predicted_hw[labelled_hw] == label_hw[labelled_hw]))

    def legend(self) -> list[tuple[str, Colour]]:
        """List the classes in labels and prediction, with their colours."""
        maps = [one for one in (self.predicted_hw, self.source.label_hw) if one is not None]
        present = np.unique(np.concatenate([one.ravel() for one in maps]))
        names = list(zip(self.trained.info.classes, self.trained.info.palette, strict=True))
        void = [("void", VOID_COLOUR)] if (present >= len(names)).any() else []
        return [names[number] for number in present if number < len(names)] + void

    def coloured(self, label_hw: Label) -> Image:
        return colourise(label_hw, self.trained.info.palette)


def describe(explained: ExplainedImage) -> str:
    """Describe network and image in a few sentences, for the head of the page."""
    info, accuracy = explained.trained.info, explained.accuracy()
    height, width = explained.input_bchw.shape[2:]
    right = ""
    if accuracy is not None:
        right = f" {100 * accuracy:.1f} % of its labelled pixels are right in this view."
    return (
        f"{info.recipe.model.title}, trained on {info.recipe.data.title} for "
        f"{counted(info.step, 'step')}. The network saw the image once and whole, at "
        f"{width} x {height} pixels.{right}"
    )


def prediction_line(explained: ExplainedImage) -> str:
    """Name the three classes with most pixels, and how much is right, in one line."""
    number_n, count_n = np.unique(explained.predicted_hw, return_counts=True)
    order = np.argsort(-count_n, kind="stable")[:3]
    classes, pixels = explained.trained.info.classes, explained.predicted_hw.size
    parts = [f"{classes[number_n[one]]} {100 * count_n[one] / pixels:.0f} %" for one in order]
    accuracy = explained.accuracy()
    right = "" if accuracy is None else f"; {100 * accuracy:.1f} % of the labelled pixels are right"
    return f"predicts {', '.join(parts)}{right}"


def label_panels(explained: ExplainedImage) -> list[Panel]:
    """Draw the labels, if there are any, and the prediction."""
    panels = [Panel("prediction", explained.coloured(explained.predicted_hw))]
    if explained.source.label_hw is not None:
        panels.insert(0, Panel("truth", explained.coloured(explained.source.label_hw)))
    return panels
