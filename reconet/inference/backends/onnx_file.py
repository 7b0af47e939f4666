"""ONNX files by ONNX Runtime. They are data: nothing in one is run but its arithmetic."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from reconet.errors import CheckpointError, MissingExtraError, first_line

if TYPE_CHECKING:
    from reconet.inference.backends import Run


def open_onnx(source: Path, outputs: Sequence[str]) -> tuple[Mapping[str, str], str, "Run"]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise MissingExtraError("export", f"opening {source}") from error
    data = source.read_bytes()
    try:
        _refuse_other_files(onnx.load_model_from_string(data), source)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = torch.get_num_threads()
        settings.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            data,
            settings,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,  # to the same provider, with a word on stdout
        )
    except CheckpointError:
        raise
    except Exception as error:  # protobuf and the runtime raise nearly anything
        reason = first_line(error)
        raise CheckpointError(f"cannot read {source}: {reason.rstrip('.')}.") from error
    texts: dict[str, str] = session.get_modelmeta().custom_metadata_map
    name = session.get_inputs()[0].name

    def run(image_bchw: NDArray[np.uint8]) -> Sequence[NDArray[np.generic]]:
        result: Sequence[NDArray[np.generic]] = session.run(list(outputs), {name: image_bchw})
        return result

    return texts, "ONNX Runtime", run


def _refuse_other_files(model: Any, source: Path) -> None:
    """A model may say that its weights are in any other file of this machine; ours never do."""
    graphs = [model.graph, *model.functions]
    for tensor in (t for graph in graphs for t in _tensors(graph)):
        if tensor.data_location == tensor.EXTERNAL or tensor.external_data:
            raise CheckpointError(
                f"{source} wants to read another file for its weights, which is not allowed."
            )


def _tensors(graph: Any) -> Iterator[Any]:
    """All of a graph or function, and of the graphs inside of it."""
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
