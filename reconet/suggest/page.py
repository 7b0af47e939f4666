"""Write the first suggestions as one HTML page, with the regions marked."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from reconet.data.dataset import Dataset
from reconet.data.images.draw import VOID_COLOUR, colourise, fit
from reconet.errors import DataError
from reconet.report import html_page, image_source, percent
from reconet.suggest.rank import Judge, Suggestion, within_borders
from reconet.system.progress import Progress
from reconet.system.readable import counted
from reconet.types import Image

if TYPE_CHECKING:
    from reconet.suggest.suggest import Suggestions

SIDE = 360  # pixels, of the longer side of an image
RED, WHITE = (225, 29, 44), (255, 255, 255)
LEAST_AREA = 12  # pixels of the small image: smaller regions are not marked
MOST_ROWS = 1000  # of the table


def compose_page(
    result: "Suggestions",
    shown: Sequence[Suggestion],
    dataset: Dataset,
    judge: Judge,
    command: str,
    progress: Progress,
) -> str:
    """Compose the page. The shown images are read and judged once more."""
    info, again = judge.network.info, result.kind == "label-again"
    progress.start(len(shown), "draw")
    drawn = []
    for one in shown:
        why = ", ".join(f"{name} {text}" for name, text in describe_figures(one).items())
        try:
            drawn.append((one, _draw(one, dataset, judge, again), why))
        except DataError as error:  # it has changed since
            drawn.append((one, [], str(error)))
        progress.advance()
    rows = enumerate(result.images[:MOST_ROWS], 1)
    return html_page(
        "suggest.html",
        kind="suggest",
        title="Label this again" if again else "Label this next",
        again=again,
        result=result,
        heading=f"The first {len(shown)} of {counted(len(result.images), 'image')}",
        classes=info.classes,
        palette=info.palette,
        void_colour=VOID_COLOUR,
        shown=drawn,
        head=["row", "image", *describe_figures(result.images[0])],
        rows=[(row, one.name, *describe_figures(one).values()) for row, one in rows],
        command=command,
    )


def describe_figures(one: Suggestion) -> dict[str, str]:
    """Return why an image was suggested, for people."""
    texts = {}
    for name, value in one.figures.items():
        texts[name] = f"{value:.2f}" if name == "distance" else percent(value, digits=2)
    if "disagreement" in one.figures:
        texts |= {"mask says": one.mask_says or "-", "network says": one.network_says or "-"}
    return texts


def _draw(one: Suggestion, dataset: Dataset, judge: Judge, again: bool) -> list[tuple[str, str]]:
    """Draw an image with its regions marked, its mask, and the labels of the network."""
    sample = dataset[one.index]
    judged = judge(sample.image_hwc, sample.label_hw if again else None)
    small_hwc = fit(sample.image_hwc, SIDE, SIDE)
    marked_hwc = mark(small_hwc, strong_places(judged.value_hw, again))
    caption = "network contradicts the mask here" if again else "unsure here"
    figures = [(image_source(marked_hwc, "jpeg"), caption)]
    masks = {"mask": sample.label_hw} if again else {}
    height, width = small_hwc.shape[:2]
    for name, label_hw in (masks | {"network": judged.predicted_hw}).items():
        small_hw = cv2.resize(label_hw, (width, height), interpolation=cv2.INTER_NEAREST)
        drawn_hwc = colourise(np.asarray(small_hw, np.uint8), judge.network.info.palette)
        figures.append((image_source(drawn_hwc), name))
    return figures


def strong_places(value_hw: NDArray[np.float32], labelled: bool) -> NDArray[np.bool_]:
    """Return which pixels to mark.

    The network contradicts a mask where its class is more probable by half, borders left out. It
    is unsure where it is at least half as unsure as at its worst.
    """
    if labelled:
        return within_borders(value_hw) > 0.5
    return value_hw >= max(0.5 * float(value_hw.max()), 1e-6)


def mark(small_hwc: Image, strong_hw: NDArray[np.bool_]) -> Image:
    """Draw red lines around places of an image, which is smaller or larger than they are."""
    height, width = small_hwc.shape[:2]
    small_hw = cv2.resize(
        strong_hw.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST
    )
    drawn_hwc = small_hwc.copy()
    lines, _ = cv2.findContours(small_hw, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    kept = [line for line in lines if cv2.contourArea(line) >= LEAST_AREA]
    for colour, thickness in ((WHITE, 4), (RED, 2)):  # the white one is seen on red things too
        cv2.drawContours(drawn_hwc, kept, -1, colour, thickness)
    return drawn_hwc
