"""Run exported networks, each by the library that its format was made for.

exported.py           the table of backends, and one interface for all of them
export_info.py        the metadata of an exported file
interface.py          what every backend returns
probe.py              run a stranger's graph once in a process of its own, with limits
onnx_backend.py       .onnx by ONNX Runtime
openvino_backend.py   .xml with its .bin by OpenVINO
pt2_backend.py        .pt2 by torch.export
"""

from reconet.inference.backends.export_info import LABELS, LOGITS, ExportInfo
from reconet.inference.backends.exported import (
    BACKENDS,
    ExportedNetwork,
    open_exported,
    was_exported,
)

__all__ = [
    "BACKENDS",
    "LABELS",
    "LOGITS",
    "ExportInfo",
    "ExportedNetwork",
    "open_exported",
    "was_exported",
]
