"""Show the predictions of a folder on one page of thumbnails."""

import os
from pathlib import Path
from urllib.parse import quote

import numpy as np
from PIL import Image as Pillow

from reconet.data.dataset import evenly_spaced
from reconet.inference import FolderResult
from reconet.report.html import html_page, image_source, is_page, percent
from reconet.system.files import check_output_file, write_text
from reconet.system.readable import counted

GALLERY = "gallery.html"
SIDE, MOST = 320, 1000  # pixels of a thumbnail, images on a page


def write_gallery(result: FolderResult) -> Path:
    """Write a page with a thumbnail of each overlay, which leads to the overlay itself."""
    path = result.out / GALLERY
    check_output_file(path, lambda file: is_page(file, "gallery"))
    shown = [image for image in result.images if "overlay" in image.get("outputs", {})]
    thumbnails = []
    for index in evenly_spaced(len(shown), MOST):
        image = shown[index]
        with Pillow.open(result.out / image["outputs"]["overlay"]) as overlay:
            overlay.draft("RGB", (2 * SIDE, 2 * SIDE))  # a JPEG is read small
            overlay.thumbnail((SIDE, SIDE))
            source = image_source(np.asarray(overlay.convert("RGB")), "jpeg")
        name = os.path.relpath(image["source"], Path.cwd())
        thumbnails.append((source, quote(image["outputs"]["overlay"]), name, image["shares"]))
    text = html_page(
        "gallery.html",
        kind="gallery",
        title=f"Predictions in {result.out.name}",
        network=result.network,
        images=thumbnails,
        count=len(shown),
        rows=[(n, percent(share), images) for n, (share, images) in result.classes().items()],
        colours=[result.colours[name] for name in result.classes()],
        counted=counted,
    )
    write_text(path, text)
    return path
