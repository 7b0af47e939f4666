"""Write the first suggestions as one HTML page, with the regions marked."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from reconet.data.dataset import Dataset
from reconet.data.images.draw import colourise, fit
from reconet.errors import DataError
from reconet.report.html import (
    Markup,
    html_page,
    join,
    jpeg_image,
    note,
    percent,
    png_image,
    section,
    table,
    tag,
)
from reconet.report.sections import class_legend
from reconet.suggest.pixels import Judge
from reconet.suggest.rank import Suggestion, within_borders
from reconet.system.progress import Progress
from reconet.system.readable import counted
from reconet.system.reading import TEXT_BYTES, open_file
from reconet.types import Image, Label, Palette

if TYPE_CHECKING:
    from reconet.suggest.suggest import Suggestions

TITLE = "reconet suggest"
SIDE = 360  # pixels, of the longer side of an image
RED, WHITE = (225, 29, 44), (255, 255, 255)
LEAST_AREA = 12  # pixels of the small image: smaller regions are not marked
MARKED = {"label-next": "unsure here", "label-again": "network contradicts the mask here"}
LEADS = {
    "label-next": "Images without labels, those first that the network is least sure of and that "
    "are most different from its training images.",
    "label-again": "Images whose masks the network contradicts most confidently. Some of these "
    "masks may be wrong. So may the network.",
}


def is_page(path: Path) -> bool:
    """Return whether a file is such a page, which a new one may replace."""
    with open_file(path, limit=TEXT_BYTES) as file:
        return f"{TITLE}</title>".encode() in file.read(4096)


def compose_page(
    result: "Suggestions",
    shown: Sequence[Suggestion],
    dataset: Dataset,
    judge: Judge,
    command: str,
    progress: Progress,
) -> str:
    """Compose the page. The shown images are read and judged once more."""
    info = judge.network.info
    progress.start(len(shown), "draw")
    rows = []
    for row, one in enumerate(shown, 1):
        rows.append(_show(row, one, dataset, judge, info.palette, result.kind == "label-again"))
        progress.advance()
    title = "Label this next" if result.kind == "label-next" else "Label this again"
    skipped = [note(f"left out: {one['name']}: {one['reason']}") for one in result.skipped]
    return html_page(
        f"{title} - {TITLE}",
        tag("h1", title),
        tag("p", LEADS[result.kind], class_="lead"),
        tag("p", f"{result.network} on {result.of}: {result.protocol}."),
        *(note(text) for text in result.notes),
        *skipped[:10],
        section(
            f"The first {len(shown)} of {counted(len(result.images), 'image')}",
            class_legend(info.classes, info.palette),
            *rows,
        ),
        section("All", _table(result.images[:1000])),
        section("How this was made", tag("code", command, class_="command")),
    )


def _table(images: Sequence[Suggestion]) -> Markup:
    head = ["row", "image", *describe_columns(images[0])]
    rows = [
        (str(row), one.name, *describe_figures(one).values()) for row, one in enumerate(images, 1)
    ]
    return table(head, rows)


def describe_columns(one: Suggestion) -> list[str]:
    """Return the heads of the columns that tell why an image was suggested."""
    return list(describe_figures(one))


def describe_figures(one: Suggestion) -> dict[str, str]:
    """Return why an image was suggested, for people."""
    texts = {}
    for name, value in one.figures.items():
        texts[name] = f"{value:.2f}" if name == "distance" else percent(value, digits=2)
    if "disagreement" in one.figures:
        texts |= {"mask says": one.mask_says or "-", "network says": one.network_says or "-"}
    return texts


def _show(
    row: int,
    one: Suggestion,
    dataset: Dataset,
    judge: Judge,
    palette: Palette,
    labelled: bool,
) -> Markup:
    """Show an image with its regions marked, beside its mask and the labels of the network."""
    try:
        sample = dataset[one.index]
    except DataError as error:  # it has changed since
        return note(f"{one.name}: {error}")
    judged = judge(sample.image_hwc, sample.label_hw if labelled else None)
    small_hwc = fit(sample.image_hwc, SIDE, SIDE)
    strong_hw = strong_places(judged.value_hw, labelled)
    kind = "label-again" if labelled else "label-next"
    figures = [_figure(jpeg_image(mark(small_hwc, strong_hw), one.name), MARKED[kind])]
    if labelled:
        figures.append(_labels(sample.label_hw, palette, small_hwc, "mask"))
    figures.append(_labels(judged.predicted_hw, palette, small_hwc, "network"))
    why = ", ".join(f"{name} {text}" for name, text in describe_figures(one).items())
    head = tag("h3", f"{row}. {one.name}", class_="file")
    return tag("div", head, tag("p", why), tag("div", join(figures), class_="row"))


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


def _labels(label_hw: Label, palette: Palette, like_hwc: Image, caption: str) -> Markup:
    height, width = like_hwc.shape[:2]
    small_hw = cv2.resize(label_hw, (width, height), interpolation=cv2.INTER_NEAREST)
    drawn = colourise(np.asarray(small_hw, np.uint8), palette)
    return _figure(png_image(drawn, caption, class_="labels"), caption)


def _figure(image: Markup, caption: str) -> Markup:
    return tag("figure", image, tag("figcaption", caption))
