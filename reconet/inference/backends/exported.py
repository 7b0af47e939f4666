"""Open an exported file of any format.

All formats have one interface: image, RGB uint8 (b, 3, h, w) -> labels, uint8 (b, h, w), and
logits, float (b, k, i, j) at the resolution of the features. To add a format, write a file with a
function that opens it and add one line to BACKENDS.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
import torch
from torch import Tensor

from reconet.errors import CheckpointError, DataError, ReconetError, first_line, pick
from reconet.inference.backends import onnx_backend, openvino_backend, pt2_backend
from reconet.inference.backends.export_info import KEY, LOGITS, ExportInfo
from reconet.inference.backends.interface import OpenFile, Run
from reconet.inference.backends.probe import probe_export
from reconet.system.readable import counted
from reconet.system.reading import WEIGHTS_BYTES, open_file, read_file

BACKENDS: dict[str, OpenFile] = {
    ".onnx": onnx_backend.open_onnx,
    ".pt2": pt2_backend.open_pt2,
    ".xml": openvino_backend.open_openvino,
}
NUMBERS = "fiu"  # kinds of types: floats, integers and unsigned integers
PROBED = (".onnx", ".xml")  # graphs that anybody may have written


@dataclass(frozen=True, kw_only=True)
class ExportedNetwork:
    """A network of an exported file, ready to run. Threads may share one."""

    source: Path
    info: ExportInfo
    how: str
    run: Run

    def __call__(self, image_bchw: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs that the file was opened for, on the device of the image.

        They are computed on the CPU.
        """
        self._check(image_bchw)
        try:
            outputs = self.run(image_bchw.cpu().numpy())
        except Exception as error:  # each backend raises errors of its own kind
            raise CheckpointError(f"{self.source} cannot be run: {first_line(error)}.") from error
        for one in outputs:
            if not isinstance(one, np.ndarray) or one.dtype.kind not in NUMBERS:
                raise CheckpointError(f"{self.source} gives an output that is no array of numbers.")
            if one.ndim < 3 or one.shape[0] != len(image_bchw) or 0 in one.shape:
                raise CheckpointError(
                    f"{self.source} gives an output of shape {one.shape} for "
                    f"{counted(len(image_bchw), 'image')}, which no network does."
                )
        return tuple(torch.from_numpy(np.asarray(one)).to(image_bchw.device) for one in outputs)

    def _check(self, image_bchw: Tensor) -> None:
        shape, least = tuple(image_bchw.shape), self.info.smallest
        if image_bchw.dtype != torch.uint8 or len(shape) != 4 or shape[1] != 3 or not shape[0]:
            raise DataError(
                f"{self.source} takes RGB images of 8 bits, (b, 3, h, w), got "
                f"{str(image_bchw.dtype).removeprefix('torch.')} {shape}."
            )
        if min(shape[2:]) < least:
            raise DataError(
                f"{self.source} takes images of at least {least} x {least} pixels, got "
                f"{shape[3]} x {shape[2]}; the network that it was exported from takes any size."
            )


def was_exported(path: Path) -> bool:
    """Tell whether `reconet export` wrote a file. Nothing in it is run."""
    if path.suffix == ".xml":  # it may have lost its .bin
        return f"<{KEY}>".encode() in read_file(path, limit=WEIGHTS_BYTES)
    if path.suffix == ".pt2":
        with suppress(BadZipFile), open_file(path, limit=WEIGHTS_BYTES) as file:
            return any(name.endswith(f"/{pt2_backend.TEXTS}") for name in ZipFile(file).namelist())
        return False
    with suppress(ReconetError):
        return "recipe" in BACKENDS[path.suffix](path, ()).texts
    return False


def open_exported(
    source: Path, outputs: Sequence[str] = (LOGITS,), *, trusted: bool = False
) -> ExportedNetwork:
    """Open an exported file for some of its outputs. Other outputs are not computed.

    `trusted` allows a .pt2 file, which may run code: set it only if its maker is trusted. A graph
    that is not trusted is first run in another process, with limits.
    """
    open_file = pick(BACKENDS, source.suffix, "format of an export")
    if trusted and open_file is pt2_backend.open_pt2:
        open_file = pt2_backend.open_trusted_pt2
    if not source.is_file():
        raise CheckpointError(f"no exported network at {source}.")
    opened = open_file(source, outputs)
    info = ExportInfo.from_texts(opened.texts, source)
    if not trusted and source.suffix in PROBED:
        probe_export(source)
    how = f"{opened.library} {info.precision}"
    return ExportedNetwork(source=source, info=info, how=how, run=opened.prepare())
