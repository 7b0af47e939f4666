"""COCO instances: annotations.json, with a polygon for each connected area.

The polygons run along the edges of pixels, so that they hold the labels exactly.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reconet.data.prelabels.outline import areas_of
from reconet.data.prelabels.prelabelled import (
    LabelClasses,
    PrelabelFormat,
    PrelabelledImage,
    TextFile,
)

ABOUT = {"description": "Predictions of reconet, to be corrected", "version": "1.0"}


def encode(
    images: Iterable[PrelabelledImage], classes: LabelClasses, folder: Path
) -> Iterator[TextFile]:
    """Write one file for all images."""
    listed: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for image in images:
        label_hw = image.labels()
        height, width = label_hw.shape
        number = len(listed) + 1
        listed.append({"id": number, "file_name": image.name, "width": width, "height": height})
        for category, label, _ in classes.numbered():
            for area in areas_of(label_hw, label):
                tall, wide = area.inside_hw.shape
                annotations.append(
                    {
                        "id": len(annotations) + 1,
                        "image_id": number,
                        "category_id": category + 1,
                        "segmentation": [[value for corner in area.ring() for value in corner]],
                        "area": int(np.count_nonzero(area.inside_hw)),
                        "bbox": [area.left, area.top, wide, tall],
                        "iscrowd": 0,
                    }
                )
    content = {
        "info": ABOUT,
        "images": listed,
        "annotations": annotations,
        "categories": [{"id": n + 1, "name": name} for n, _, name in classes.numbered()],
    }
    yield TextFile("annotations.json", json.dumps(content))


COCO = PrelabelFormat("COCO instances, polygons", encode)
