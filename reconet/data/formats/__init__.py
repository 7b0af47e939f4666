"""Read the labels of people's own images, in whatever format they have them.

tree.py         the files of a folder
labelled.py     what a format makes of a folder: OwnData, Format
draw.py         regions into labels: polygons, run lengths, small PNGs
brush.py        brush strokes of Label Studio
splits.py       train, val and test, from names
mask_….py       folders of masks, and what their values mean
coco.py ...     one file per format
convert.py      draw the masks of a folder once, and keep them in the cache
recognise.py    recognise the format of a folder, and read it

To add a format: write a file with `recognise` and `read`, and add one line to FORMATS. The first
format of the table that recognises a folder reads it.
"""

from reconet.data.formats.black_white_masks import BLACK_WHITE_MASKS
from reconet.data.formats.coco import COCO
from reconet.data.formats.coco_panoptic import COCO_PANOPTIC
from reconet.data.formats.colour_masks import COLOUR_MASKS
from reconet.data.formats.cvat_xml import CVAT_XML
from reconet.data.formats.index_masks import INDEX_MASKS
from reconet.data.formats.label_studio import LABEL_STUDIO
from reconet.data.formats.label_studio_png import LABEL_STUDIO_PNG
from reconet.data.formats.labelled import Format
from reconet.data.formats.labelme import LABELME
from reconet.data.formats.voc import VOC
from reconet.data.formats.yolo import YOLO

FORMATS: dict[str, Format] = {
    "coco": COCO,
    "coco-panoptic": COCO_PANOPTIC,
    "cvat": CVAT_XML,
    "label-studio-png": LABEL_STUDIO_PNG,
    "label-studio": LABEL_STUDIO,
    "labelme": LABELME,
    "yolo": YOLO,
    "voc": VOC,
    "colour-masks": COLOUR_MASKS,
    "black-white-masks": BLACK_WHITE_MASKS,
    "index-masks": INDEX_MASKS,
}

__all__ = ["FORMATS", "Format"]
