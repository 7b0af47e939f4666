"""Exported networks, each run by the library that its format was made for.

All have one interface: image, RGB uint8 (b, 3, h, w) -> labels, uint8 (b, h, w), and logits,
float (b, k, i, j) at the resolution of the features. To add a format: write a file with a function
that opens it, add one line to RUNTIMES.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reconet.errors import CheckpointError, DataError, first_line, pick
from reconet.inference.backends import onnx_file, openvino_file, program_file
from reconet.inference.backends.export_info import LABELS, LOGITS, ExportInfo

__all__ = ["LABELS", "LOGITS", "RUNTIMES", "Opened", "open_file"]

Run = Callable[[NDArray[np.uint8]], Sequence[NDArray[np.generic]]]
# A file and the outputs that are wanted of it -> its texts, what runs it, and how to run it.
Open = Callable[[Path, Sequence[str]], tuple[Mapping[str, str], str, Run]]

RUNTIMES: dict[str, Open] = {
    ".onnx": onnx_file.open_onnx,
    ".pt2": program_file.open_program,
    ".xml": openvino_file.open_openvino,
}


@dataclass(frozen=True, kw_only=True)
class Opened:
    """An exported file, ready. Threads may share one."""

    source: Path
    info: ExportInfo
    how: str
    run: Run

    def __call__(self, image_bchw: Tensor) -> tuple[Tensor, ...]:
        """The outputs that it was opened for, where the image is; computed on the CPU."""
        self._check(image_bchw)
        try:
            said = self.run(image_bchw.cpu().numpy())
        except Exception as error:  # each runtime has errors of its own
            raise CheckpointError(f"{self.source} cannot be run: {first_line(error)}.") from error
        return tuple(torch.from_numpy(np.asarray(one)).to(image_bchw.device) for one in said)

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


def open_file(source: Path, outputs: Sequence[str] = (LOGITS,), *, trusted: bool = False) -> Opened:
    """Open an exported file for some of its outputs; what is not asked for is not computed.

    `trusted`: it may be a .pt2, since it was made here or by somebody whose code may run here.
    """
    opener = pick(RUNTIMES, source.suffix, "format of an export")
    if trusted and opener is program_file.open_program:
        opener = program_file.load_trusted
    if not source.is_file():
        raise CheckpointError(f"no exported network at {source}.")
    texts, how, run = opener(source, outputs)
    info = ExportInfo.from_texts(texts, source)
    return Opened(source=source, info=info, how=f"{how} {info.precision}", run=run)
