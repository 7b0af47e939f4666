"""Run ONNX files by ONNX Runtime. They are data: only their arithmetic is run."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reconet.errors import CheckpointError, MissingExtraError, first_line
from reconet.inference.backends.interface import OpenedFile
from reconet.system.reading import WEIGHTS_BYTES, read_file


def open_onnx(source: Path, outputs: Sequence[str]) -> OpenedFile:
    """Open an .onnx file for some of its outputs."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("export", f"opening {source}") from error
    data = read_file(source, limit=WEIGHTS_BYTES)
    try:
        _refuse_external_data(onnx.load_model_from_string(data), source)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = torch.get_num_threads()
        settings.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            data,
            settings,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,  # it would fall back to the same provider and print a line
        )
    except CheckpointError:
        raise
    except Exception as error:  # protobuf and ONNX Runtime raise errors of many kinds
        reason = first_line(error)
        raise CheckpointError(f"cannot read {source}: {reason.rstrip('.')}.") from error
    texts: dict[str, str] = session.get_modelmeta().custom_metadata_map
    name = session.get_inputs()[0].name

    def run(image_bchw: NDArray[np.uint8]) -> Sequence[NDArray[np.generic]]:
        result: Sequence[NDArray[np.generic]] = session.run(list(outputs), {name: image_bchw})
        return result

    return OpenedFile(texts, "ONNX Runtime", run)


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
