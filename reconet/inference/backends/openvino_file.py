"""OpenVINO's IR, an .xml with its .bin, by OpenVINO. It is data: only its arithmetic is run."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from reconet.errors import CheckpointError, MissingExtraError
from reconet.inference.backends.export_info import KEY
from reconet.system.hardware import make_bf16_safe

if TYPE_CHECKING:
    from reconet.inference.backends import Run


def open_openvino(
    source: Path, outputs: Sequence[str], *, precision: str = "f32"
) -> tuple[Mapping[str, str], str, "Run"]:
    """`precision` is that of all products which are not int8; OpenVINO's own choice is by what the
    CPU announces, which some virtual machines do wrongly (see cpu.py)."""
    make_bf16_safe()
    try:
        import openvino
    except ImportError as error:
        raise MissingExtraError("export", f"opening {source}") from error
    if not source.with_suffix(".bin").is_file():
        raise CheckpointError(f"{source} has no {source.with_suffix('.bin').name} beside it.")
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": precision,
    }
    try:
        core = openvino.Core()
        model = core.read_model(source)
        texts = read_texts(model)
        wanted = [model.output(name) for name in outputs]
        # What leads to no wanted output is not computed.
        part = openvino.Model(wanted, model.get_parameters())
        compiled = core.compile_model(part, "CPU", settings)
    except Exception as error:  # even that its own message cannot be decoded
        reason = str(error).strip().splitlines()[-1].strip() if str(error).strip() else "no reason"
        raise CheckpointError(f"cannot read {source}: {reason.rstrip('.')}.") from error
    own = threading.local()  # a request serves one thread at a time

    def run(image_bchw: NDArray[np.uint8]) -> Sequence[NDArray[np.generic]]:
        if not hasattr(own, "request"):
            own.request = compiled.create_infer_request()
        said = own.request.infer({0: np.ascontiguousarray(image_bchw)})
        return [np.array(said[number]) for number in range(len(outputs))]

    return texts, "OpenVINO", run


def read_texts(model: Any) -> dict[str, str]:
    """What `write_texts` has written; nothing of another's model."""
    if not model.has_rt_info([KEY]):
        return {}
    texts = model.get_rt_info([KEY]).value
    # Of a model that was never in a file they are plain, of one that was they are wrapped.
    return {name: str(getattr(text, "value", text)) for name, text in texts.items()}


def write_texts(model: Any, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        model.set_rt_info(text, [KEY, name])
