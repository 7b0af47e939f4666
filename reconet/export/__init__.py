"""Export a network to one file for other programs, and share it with other people.

export.py         export(): trace, write, compare with the network
formats.py        the network as one graph, and FORMATS: write it as ONNX, OpenVINO, torch.export
sample_images.py  real images to compare on and to calibrate by
int8.py           quantise to 8 bits, within an allowed loss of mIoU
fast.py           int8 for --fast, kept if the labels stay the same
share.py          a folder with a model card for other people, and its upload to the hub

To add a format, write a function in formats.py and add one line to FORMATS.
"""

from reconet.export.export import Difference, Export, export, input_size_advice
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
