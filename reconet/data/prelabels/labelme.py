"""labelme: a json for each image, with a polygon for each connected area.

A json names its image by a relative path, so that labelme finds it where it is.
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from reconet.data.prelabels.outline import areas_of
from reconet.data.prelabels.prelabelled import (
    LabelClasses,
    PrelabelFormat,
    PrelabelledImage,
    TextFile,
)

VERSION = "5.5.0"  # of labelme, whose files look like this


def encode(
    images: Iterable[PrelabelledImage], classes: LabelClasses, folder: Path
) -> Iterator[TextFile]:
    """Write a file for each image."""
    for image in images:
        name = f"{image.stem}.json"
        label_hw = image.labels()
        shapes: list[dict[str, Any]] = [
            {
                "label": class_name,
                "points": [[float(x), float(y)] for x, y in area.ring()],
                "group_id": None,
                "shape_type": "polygon",
                "flags": {},
            }
            for _, label, class_name in classes.numbered()
            for area in areas_of(label_hw, label)
        ]
        content = {
            "version": VERSION,
            "flags": {},
            "shapes": shapes,
            "imagePath": Path(os.path.relpath(image.path, (folder / name).parent)).as_posix(),
            "imageData": None,
            "imageHeight": label_hw.shape[0],
            "imageWidth": label_hw.shape[1],
        }
        yield TextFile(name, json.dumps(content, indent=1))


LABELME = PrelabelFormat("labelme, polygons", encode)
