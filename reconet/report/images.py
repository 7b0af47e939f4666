"""Images inside a page: what is there, what is true, what a network says, where it is wrong."""

from collections.abc import Sequence
from io import BytesIO
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from reconet.data.images.draw import colourise, fit
from reconet.report import markup
from reconet.report.markup import Markup, tag
from reconet.types import IGNORE, Colour, Image, Label

SIDE = 320  # pixels, of the longer side
WRONG, VOID = (225, 29, 44), (214, 196, 150)


class View(NamedTuple):
    """One validation image, small enough for a page, with one answer for each network."""

    name: str
    image_hwc: Image
    truth_hw: Label
    said: tuple[Label, ...]
    right: tuple[float, ...]  # of the labelled pixels, at full size; NaN if there are none


def view(name: str, image_hwc: Image, truth_hw: Label, said_hw: Label) -> View:
    """Shrink an image with its answer; labels by their nearest, so that none is invented."""
    labelled_hw = truth_hw != IGNORE
    hits = np.count_nonzero((said_hw == truth_hw) & labelled_hw)
    pixels = np.count_nonzero(labelled_hw)
    zoom = min(1.0, SIDE / max(truth_hw.shape))
    small = fit(image_hwc, SIDE, SIDE) if zoom < 1 else image_hwc
    right = hits / pixels if pixels else float("nan")
    return View(name, small, _shrink(truth_hw, small), (_shrink(said_hw, small),), (right,))


def together(views: Sequence[View]) -> View:
    """The same image with the answers of several networks."""
    said = tuple(one for each in views for one in each.said)
    return views[0]._replace(said=said, right=tuple(r for each in views for r in each.right))


def errors(image_hwc: Image, truth_hw: Label, said_hw: Label) -> Image:
    """The image, pale, with wrong pixels in red and void in sand."""
    grey_hw = np.asarray(cv2.cvtColor(image_hwc, cv2.COLOR_RGB2GRAY), np.uint8)
    # 16 shades: pale enough to look through, and few bytes.
    pale_hwc = (175 + (grey_hw // 16) * 5).astype(np.uint8)[..., None].repeat(3, -1)
    pale_hwc[truth_hw == IGNORE] = VOID
    pale_hwc[(truth_hw != IGNORE) & (truth_hw != said_hw)] = WRONG
    return pale_hwc


def row(
    one: View, palette: Sequence[Colour], names: Sequence[str], *, wrong: bool = True
) -> Markup:
    """Image, truth, then for each network what it says and, if asked for, where it is wrong."""
    cells = [
        _figure(photo(one.image_hwc, f"image {one.name}"), "image"),
        _figure(labels(one.truth_hw, palette, f"truth of {one.name}"), "truth"),
    ]
    for name, said_hw, right in zip(names, one.said, one.right, strict=True):
        share = "" if right != right else f", {100 * right:.1f} % right"
        told = f"{name} on {one.name}"
        cells.append(_figure(labels(said_hw, palette, told), f"{name}{share}"))
        if wrong:
            image = errors(one.image_hwc, one.truth_hw, said_hw)
            cells.append(
                _figure(image_tag(image, f"errors of {told}", class_="labels"), "errors in red")
            )
    return tag("div", tag("h3", one.name, class_="file"), tag("div", *cells, class_="row"))


def labels(label_hw: Label, palette: Sequence[Colour], alt: str) -> Markup:
    return image_tag(colourise(label_hw, palette), alt, class_="labels")


def photo(image_hwc: Image, alt: str) -> Markup:
    return _image(image_hwc, alt, "JPEG")


def image_tag(image: NDArray[np.uint8], alt: str, class_: str | None = None) -> Markup:
    """Bit for bit; RGB or RGBA."""
    return _image(image, alt, "PNG", class_)


def _image(image: NDArray[np.uint8], alt: str, kind: str, class_: str | None = None) -> Markup:
    buffer = BytesIO()
    options = {"quality": 88} if kind == "JPEG" else {"optimize": True}
    Pillow.fromarray(image).save(buffer, kind, **options)
    height, width = image.shape[:2]
    return markup.image(
        buffer.getvalue(), alt, kind.lower(), width=width, height=height, class_=class_
    )


def _figure(image: Markup, caption: str) -> Markup:
    return tag("figure", image, tag("figcaption", caption))


def _shrink(label_hw: Label, like_hwc: Image) -> Label:
    height, width = like_hwc.shape[:2]
    small = cv2.resize(label_hw, (width, height), interpolation=cv2.INTER_NEAREST)
    return np.asarray(small, np.uint8)
