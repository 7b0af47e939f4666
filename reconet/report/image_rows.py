"""Show images in a row: the image, its labels, and predictions with their errors."""

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from reconet.data.images.draw import colourise, fit
from reconet.report.html import Markup, jpeg_image, png_image, tag
from reconet.types import IGNORE, Colour, Image, Label

SIDE = 320  # pixels, of the longer side
ERROR_COLOUR, VOID_COLOUR = (225, 29, 44), (214, 196, 150)


class ImageRow(NamedTuple):
    """A validation image, small enough for a page, with the labels that each network predicts."""

    name: str
    image_hwc: Image
    truth_hw: Label
    predictions: tuple[Label, ...]
    accuracies: tuple[float, ...]  # on labelled pixels, at full size; NaN if there are none


def make_image_row(name: str, image_hwc: Image, truth_hw: Label, predicted_hw: Label) -> ImageRow:
    """Shrink an image with the prediction of one network. No label is invented by that."""
    labelled_hw = truth_hw != IGNORE
    right = np.count_nonzero((predicted_hw == truth_hw) & labelled_hw)
    pixels = np.count_nonzero(labelled_hw)
    small = fit(image_hwc, SIDE, SIDE) if max(truth_hw.shape) > SIDE else image_hwc
    return ImageRow(
        name=name,
        image_hwc=small,
        truth_hw=_shrink(truth_hw, small),
        predictions=(_shrink(predicted_hw, small),),
        accuracies=(right / pixels if pixels else float("nan"),),
    )


def merge_rows(rows: Sequence[ImageRow]) -> ImageRow:
    """Merge rows of the same image, each with the prediction of another network."""
    return rows[0]._replace(
        predictions=tuple(label_hw for row in rows for label_hw in row.predictions),
        accuracies=tuple(accuracy for row in rows for accuracy in row.accuracies),
    )


def draw_errors(image_hwc: Image, truth_hw: Label, predicted_hw: Label) -> Image:
    """Draw the image pale, with wrong pixels in red and void in sand."""
    grey_hw = np.asarray(cv2.cvtColor(image_hwc, cv2.COLOR_RGB2GRAY), np.uint8)
    # 16 shades: pale enough to see the colours on top, and few bytes.
    pale_hwc = (175 + (grey_hw // 16) * 5).astype(np.uint8)[..., None].repeat(3, -1)
    pale_hwc[truth_hw == IGNORE] = VOID_COLOUR
    pale_hwc[(truth_hw != IGNORE) & (truth_hw != predicted_hw)] = ERROR_COLOUR
    return pale_hwc


def show_row(
    row: ImageRow, palette: Sequence[Colour], networks: Sequence[str], *, errors: bool = True
) -> Markup:
    """Show image and truth, then the prediction of each network and, if asked for, its errors."""
    figures = [
        _figure(jpeg_image(row.image_hwc, f"image {row.name}"), "image"),
        _figure(_labels(row.truth_hw, palette, f"truth of {row.name}"), "truth"),
    ]
    for network, label_hw, accuracy in zip(networks, row.predictions, row.accuracies, strict=True):
        share = "" if accuracy != accuracy else f", {100 * accuracy:.1f} % right"
        alt = f"{network} on {row.name}"
        figures.append(_figure(_labels(label_hw, palette, alt), f"{network}{share}"))
        if errors:
            drawn = draw_errors(row.image_hwc, row.truth_hw, label_hw)
            image = png_image(drawn, f"errors of {alt}", class_="labels")
            figures.append(_figure(image, "errors in red"))
    return tag("div", tag("h3", row.name, class_="file"), tag("div", *figures, class_="row"))


def _labels(label_hw: Label, palette: Sequence[Colour], alt: str) -> Markup:
    return png_image(colourise(label_hw, palette), alt, class_="labels")


def _figure(image: Markup, caption: str) -> Markup:
    return tag("figure", image, tag("figcaption", caption))


def _shrink(label_hw: Label, like_hwc: Image) -> Label:
    height, width = like_hwc.shape[:2]
    small = cv2.resize(label_hw, (width, height), interpolation=cv2.INTER_NEAREST)
    return np.asarray(small, np.uint8)
