"""Run ONNX files by ONNX Runtime. They are data: only their arithmetic is run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reconet.errors import CheckpointError, MissingExtraError, first_line
from reconet.inference.backends.interface import OpenedFile, Run
from reconet.system.reading import WEIGHTS_BYTES, read_file


def open_onnx(source: Path, outputs: Sequence[str]) -> OpenedFile:
    """Open an .onnx file for some of its outputs."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("export", f"opening {source}") from error
    data = read_file(source, limit=WEIGHTS_BYTES)
    with _one_line_errors(source):
        model = onnx.load_model_from_string(data)
        _refuse_external_data(model, source)
    texts = {entry.key: entry.value for entry in model.metadata_props}

    def prepare() -> Run:
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = torch.get_num_threads()
        settings.log_severity_level = 4  # what is wrong is in the exception, too
        with _one_line_errors(source):
            session = onnxruntime.InferenceSession(
                data,
                settings,
                providers=["CPUExecutionProvider"],
                enable_fallback=0,  # it would fall back to the same provider and print a line
            )
        name = _check_interface(session, outputs, source)

        def run(image_bchw: NDArray[np.uint8]) -> Sequence[NDArray[np.generic]]:
            result: Sequence[NDArray[np.generic]] = session.run(list(outputs), {name: image_bchw})
            return result

        return run

    return OpenedFile(texts, "ONNX Runtime", prepare)


@contextmanager
def _one_line_errors(source: Path) -> Iterator[None]:
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:  # protobuf and ONNX Runtime raise errors of many kinds
        reason = first_line(error)
        raise CheckpointError(f"cannot read {source}: {reason.rstrip('.')}.") from error


def _check_interface(session: Any, outputs: Sequence[str], source: Path) -> str:
    """Return the name of the input. Other inputs or outputs than those of an export are refused."""
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type != "tensor(uint8)":
        raise CheckpointError(f"{source} does not take one image of 8 bits, as exports do.")
    if not {output.name for output in session.get_outputs()}.issuperset(outputs):
        raise CheckpointError(f"{source} does not give {' and '.join(outputs)}, as exports do.")
    name: str = inputs[0].name
    return name


def _refuse_external_data(model: Any, source: Path) -> None:
    """Refuse a model that reads weights from another file, which may be any on this machine."""
    graphs = [model.graph, *model.functions]
    for tensor in (t for graph in graphs for t in _tensors(graph)):
        if tensor.data_location == tensor.EXTERNAL or tensor.external_data:
            raise CheckpointError(
                f"{source} wants to read another file for its weights, which is not allowed."
            )


def _tensors(graph: Any) -> Iterator[Any]:
    """Yield all tensors of a graph or function, and of the graphs inside it."""
    yield from getattr(graph, "initializer", ())
    for sparse in getattr(graph, "sparse_initializer", ()):
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)
