"""YOLO segmentation: data.yaml, and labels/a.txt with a polygon for each connected area.

The images belong into images/ beside labels/. An image of background only has an empty file.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from reconet.data.prelabels.outline import areas_of
from reconet.data.prelabels.prelabelled import (
    LabelClasses,
    PrelabelFormat,
    PrelabelledImage,
    TextFile,
)

DIGITS = 7  # of a fraction: a hundredth of a pixel, in images of 100,000 pixels


def encode(
    images: Iterable[PrelabelledImage], classes: LabelClasses, folder: Path
) -> Iterator[TextFile]:
    """Write the names, and a file for each image."""
    names = [f"  {number}: {json.dumps(name)}\n" for number, _, name in classes.numbered()]
    yield TextFile("data.yaml", "".join(["train: images\nval: images\nnames:\n", *names]))
    for image in images:
        text = "".join(f"{line}\n" for line in _lines(image, classes))
        yield TextFile(PurePath("labels", image.name).with_suffix(".txt").as_posix(), text)


def _lines(image: PrelabelledImage, classes: LabelClasses) -> Iterator[str]:
    label_hw = image.labels()
    height, width = label_hw.shape
    for number, label, _ in classes.numbered():
        for area in areas_of(label_hw, label):
            ring = (f"{x / width:.{DIGITS}f} {y / height:.{DIGITS}f}" for x, y in area.ring())
            yield " ".join([str(number), *ring])


YOLO = PrelabelFormat("YOLO segmentation, polygons", encode)
