"""Run .pt2 files of torch.export, which can run code when they are opened.

torch reads parts of them as pickles and evaluates the expressions for their sizes as Python. It
has no other way to read them. So a .pt2 file is opened only if the user says that its maker is
trusted. ONNX and OpenVINO files need no trust.
"""

import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from reconet.errors import CheckpointError, first_line
from reconet.inference.backends.export_info import LABELS, LOGITS
from reconet.inference.backends.interface import OpenedFile

TRUST = "RECONET_TRUST_PT2"
TEXTS = "reconet.json"  # among the extra files of the archive


def open_pt2(source: Path, outputs: Sequence[str]) -> OpenedFile:
    """Open a .pt2 file for some of its outputs, if the user trusts its maker."""
    if os.environ.get(TRUST) != "1":
        raise CheckpointError(
            f"{source}: opening a .pt2 file can run code that is in it. If you trust who made it, "
            f"set {TRUST}=1; ONNX and OpenVINO files need no trust."
        )
    return open_trusted_pt2(source, outputs)


def open_trusted_pt2(source: Path, outputs: Sequence[str]) -> OpenedFile:
    """Open a .pt2 file that this program, or somebody trusted, has written."""
    extra = {TEXTS: "{}"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about torch's own internals
            module = torch.export.load(source, extra_files=extra).module()
    except Exception as error:  # torch raises errors of many kinds
        reason = first_line(error)
        raise CheckpointError(f"cannot read {source}: {reason.rstrip('.')}.") from error
    texts = json.loads(extra[TEXTS])

    @torch.inference_mode()
    def run(image_bchw: NDArray[np.uint8]) -> Sequence[NDArray[np.generic]]:
        results = dict(zip((LABELS, LOGITS), module(torch.from_numpy(image_bchw)), strict=True))
        return [results[name].numpy() for name in outputs]

    return OpenedFile(texts, "torch.export", lambda: run)
