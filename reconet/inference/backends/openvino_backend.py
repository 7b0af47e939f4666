"""Run OpenVINO files, an .xml with its .bin. They are data: only their arithmetic is run."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reconet.errors import CheckpointError, MissingExtraError
from reconet.inference.backends.export_info import KEY
from reconet.inference.backends.interface import OpenedFile, Run
from reconet.system.hardware import make_bf16_safe
from reconet.system.reading import WEIGHTS_BYTES, check_file


def open_openvino(source: Path, outputs: Sequence[str], *, precision: str = "f32") -> OpenedFile:
    """Open an .xml file for some of its outputs.

    `precision` is that of all products that are not int8. Left alone, OpenVINO chooses by what the
    CPU announces, which is wrong on some virtual machines (see system/hardware.py).
    """
    make_bf16_safe()
    try:
        import openvino
    except ImportError as error:
        raise MissingExtraError("export", f"opening {source}") from error
    if not source.with_suffix(".bin").is_file():
        raise CheckpointError(f"{source} has no {source.with_suffix('.bin').name} beside it.")
    core = openvino.Core()
    with _one_line_errors(source):
        for path in (source, source.with_suffix(".bin")):
            check_file(path, limit=WEIGHTS_BYTES)
        model = core.read_model(source)
        texts = read_texts(model)

    def prepare() -> Run:
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "INFERENCE_PRECISION_HINT": precision,
        }
        with _one_line_errors(source):
            wanted = [model.output(name) for name in outputs]
            # Operations that lead to no wanted output are not computed.
            part = openvino.Model(wanted, model.get_parameters())
            compiled = core.compile_model(part, "CPU", settings)
        local = threading.local()  # a request serves one thread at a time

        def run(image_bchw: NDArray[np.uint8]) -> Sequence[NDArray[np.generic]]:
            if not hasattr(local, "request"):
                local.request = compiled.create_infer_request()
            results = local.request.infer({0: np.ascontiguousarray(image_bchw)})
            return [np.array(results[number]) for number in range(len(outputs))]

        return run

    return OpenedFile(texts, "OpenVINO", prepare)


@contextmanager
def _one_line_errors(source: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of many kinds; some messages cannot even be decoded
        reason = str(error).strip().splitlines()[-1].strip() if str(error).strip() else "no reason"
        raise CheckpointError(f"cannot read {source}: {reason.rstrip('.')}.") from error


def read_texts(model: Any) -> dict[str, str]:
    """Return the texts that `write_texts` wrote, or none if it did not write this model."""
    if not model.has_rt_info([KEY]):
        return {}
    texts = model.get_rt_info([KEY]).value
    # Plain strings in a model that was just built, wrapped ones in a model read from a file.
    return {name: str(getattr(text, "value", text)) for name, text in texts.items()}


def write_texts(model: Any, texts: Mapping[str, str]) -> None:
    """Write texts into an openvino.Model, as its metadata."""
    for name, text in texts.items():
        model.set_rt_info(text, [KEY, name])
