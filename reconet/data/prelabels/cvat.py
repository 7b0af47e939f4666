"""CVAT for images 1.1: annotations.xml, with a mask for each class of an image.

CVAT's brush corrects masks. They are run lengths, so that they hold the labels exactly.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

from reconet.data.prelabels.outline import box_of
from reconet.data.prelabels.prelabelled import (
    LabelClasses,
    PrelabelFormat,
    PrelabelledImage,
    TextFile,
)


def encode(
    images: Iterable[PrelabelledImage], classes: LabelClasses, folder: Path
) -> Iterator[TextFile]:
    """Write one file for all images."""
    labels = [
        f"<label><name>{escape(name)}</name><color>{classes.colours[label]}</color>"
        "<type>any</type><attributes></attributes></label>"
        for label, name in classes.names.items()
    ]
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        "<annotations><version>1.1</version>",
        f"<meta><task><labels>{''.join(labels)}</labels></task></meta>",
    ]
    for number, image in enumerate(images):
        lines += _image(number, image, classes)
    yield TextFile("annotations.xml", "\n".join([*lines, "</annotations>\n"]))


def _image(number: int, image: PrelabelledImage, classes: LabelClasses) -> Iterator[str]:
    label_hw = image.labels()
    height, width = label_hw.shape
    name = quoteattr(image.name)
    yield f'<image id="{number}" name={name} width="{width}" height="{height}">'
    for label, class_name in classes.names.items():
        inside_hw = label_hw == label
        if not inside_hw.any():
            continue
        left, top, wide, tall = box_of(inside_hw)
        runs = ", ".join(map(str, row_runs(inside_hw[top : top + tall, left : left + wide])))
        yield (
            f'<mask label={quoteattr(class_name)} source="auto" occluded="0" z_order="0" '
            f'rle="{runs}" left="{left}" top="{top}" width="{wide}" height="{tall}"></mask>'
        )
    yield "</image>"


def row_runs(inside_hw: NDArray[np.bool_]) -> list[int]:
    """Return the lengths of runs outside and inside in turn, row by row. The first is outside."""
    inside_n = inside_hw.ravel()
    edges_n = np.flatnonzero(np.diff(inside_n, prepend=False))
    runs: list[int] = np.diff(edges_n, prepend=0, append=len(inside_n)).tolist()
    return runs


CVAT = PrelabelFormat("CVAT for images 1.1, masks", encode)
