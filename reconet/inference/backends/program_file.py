"""torch.export's .pt2 files, which can run code when they are opened.

torch reads parts of them as pickles and evaluates the expressions for their sizes as Python, and it
has no way to read one without. So a .pt2 is opened only if the user says that its maker is trusted.
ONNX and OpenVINO files need no trust.
"""

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from reconet.errors import CheckpointError, first_line
from reconet.inference.backends.export_info import LABELS, LOGITS

if TYPE_CHECKING:
    from reconet.inference.backends import Run

TRUST = "RECONET_TRUST_PT2"
TEXTS = "reconet.json"  # among the extra files of the archive


def open_program(source: Path, outputs: Sequence[str]) -> tuple[Mapping[str, str], str, "Run"]:
    if os.environ.get(TRUST) != "1":
        raise CheckpointError(
            f"{source}: opening a .pt2 file can run code that is in it. If you trust who made it, "
            f"set {TRUST}=1; ONNX and OpenVINO files need no trust."
        )
    return load_trusted(source, outputs)


def load_trusted(source: Path, outputs: Sequence[str]) -> tuple[Mapping[str, str], str, "Run"]:
    """Open a file that this program, or somebody trusted, has written."""
    extra = {TEXTS: "{}"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about torch's own internals
            module = torch.export.load(source, extra_files=extra).module()
    except Exception as error:  # it raises nearly anything
        reason = first_line(error)
        raise CheckpointError(f"cannot read {source}: {reason.rstrip('.')}.") from error
    texts = json.loads(extra[TEXTS])

    @torch.inference_mode()
    def run(image_bchw: NDArray[np.uint8]) -> Sequence[NDArray[np.generic]]:
        said = dict(zip((LABELS, LOGITS), module(torch.from_numpy(image_bchw)), strict=True))
        return [said[name].numpy() for name in outputs]

    return texts, "torch.export", run
