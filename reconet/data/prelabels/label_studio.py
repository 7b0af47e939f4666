"""Label Studio: tasks.json with predictions, and the labelling interface that they belong to.

There is one brush stroke for each class of an image, which holds the labels exactly. The images
are named as Label Studio's local storage serves them.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from reconet.data.formats.brush import pack
from reconet.data.prelabels.prelabelled import (
    LabelClasses,
    PrelabelFormat,
    PrelabelledImage,
    TextFile,
)

SERVED = "/data/local-files/?d="
MODEL = "reconet"


def encode(
    images: Iterable[PrelabelledImage], classes: LabelClasses, folder: Path
) -> Iterator[TextFile]:
    """Write the interface, and one file for all images."""
    labels = "".join(
        f"    <Label value={quoteattr(name)} background={quoteattr(classes.colours[label])}/>\n"
        for label, name in classes.names.items()
    )
    yield TextFile(
        "labeling-interface.xml",
        '<View>\n  <Image name="image" value="$image" zoom="true"/>\n'
        f'  <BrushLabels name="label" toName="image">\n{labels}  </BrushLabels>\n</View>\n',
    )
    tasks = [
        {
            "data": {"image": SERVED + quote(image.name)},
            "predictions": [{"model_version": MODEL, "result": _strokes(image, classes)}],
        }
        for image in images
    ]
    yield TextFile("tasks.json", json.dumps(tasks))


def _strokes(image: PrelabelledImage, classes: LabelClasses) -> list[dict[str, Any]]:
    label_hw = image.labels()
    height, width = label_hw.shape
    return [
        {
            "id": f"class-{label}",
            "type": "brushlabels",
            "from_name": "label",
            "to_name": "image",
            "original_width": width,
            "original_height": height,
            "image_rotation": 0,
            "value": {
                "format": "rle",
                "rle": list(pack(label_hw == label)),
                "brushlabels": [name],
            },
        }
        for label, name in classes.names.items()
        if (label_hw == label).any()
    ]


LABEL_STUDIO = PrelabelFormat("Label Studio, brush strokes as predictions", encode)
