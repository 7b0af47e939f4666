"""Export a network to one file for other programs, and share it with other people.

export.py         export(): trace, write, compare with the network
graph.py          the network as one graph: uint8 images in, uint8 labels out
formats.py        FORMATS: write the graph as ONNX, OpenVINO or torch.export
compare.py        check that an export computes what its network does
sample_images.py  real images to compare on and to calibrate by
int8.py           quantise to 8 bits, within an allowed loss of mIoU
int8_score.py     the mIoU of an int8 network
fast.py           int8 for --fast, kept if the labels stay the same
share.py          write a folder for other people, and upload it to the hub
model_card.py     the README of that folder

To add a format, write a function in formats.py and add one line to FORMATS.
"""

from reconet.export.compare import Difference
from reconet.export.export import Export, export, input_size_advice
from reconet.export.int8 import Attempt, Int8
from reconet.export.share import check_hub_id, upload_folder, write_shared_folder

__all__ = [
    "Attempt",
    "Difference",
    "Export",
    "Int8",
    "check_hub_id",
    "export",
    "input_size_advice",
    "upload_folder",
    "write_shared_folder",
]
