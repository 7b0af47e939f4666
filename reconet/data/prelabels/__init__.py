"""Write predicted labels in the formats of labelling tools, to be corrected there.

write.py         write files, and keep those of others and those that were corrected
prelabelled.py   what a format gets and gives: PrelabelledImage, LabelClasses, PrelabelFormat
outline.py       areas of labels as polygons along the edges of pixels
coco.py ...      one file per format

To add a format: write a file with `encode`, and add one line to PRELABELS.
tests/data/prelabels then reads back what it writes. reconet/data/formats has the readers.
"""

from reconet.data.prelabels.coco import COCO
from reconet.data.prelabels.cvat import CVAT
from reconet.data.prelabels.label_studio import LABEL_STUDIO
from reconet.data.prelabels.labelme import LABELME
from reconet.data.prelabels.prelabelled import PrelabelFormat
from reconet.data.prelabels.yolo import YOLO

PRELABELS: dict[str, PrelabelFormat] = {
    "coco": COCO,
    "yolo": YOLO,
    "labelme": LABELME,
    "cvat": CVAT,
    "labelstudio": LABEL_STUDIO,
}

__all__ = ["PRELABELS", "PrelabelFormat"]
