"""Put images into a page."""

from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from reconet.report.html.markup import Markup, embedded_image
from reconet.types import Image


def jpeg_image(image_hwc: Image, alt: str) -> Markup:
    """Embed a photograph as JPEG."""
    return _embed(image_hwc, alt, "JPEG", None, quality=88)


def png_image(image: NDArray[np.uint8], alt: str, class_: str | None = None) -> Markup:
    """Embed RGB or RGBA pixels as PNG, without loss."""
    return _embed(image, alt, "PNG", class_, optimize=True)


def _embed(
    image: NDArray[np.uint8], alt: str, kind: str, class_: str | None, **options: int
) -> Markup:
    buffer = BytesIO()
    Pillow.fromarray(image).save(buffer, kind, **options)
    height, width = image.shape[:2]
    return embedded_image(
        buffer.getvalue(), alt, kind.lower(), width=width, height=height, class_=class_
    )
