"""Trace a network as one graph, and write it as a file of torch.export, ONNX or OpenVINO.

The graph takes uint8 images and gives uint8 labels, for any batch and any size. Normalisation, the
resizing of the logits and the argmax are inside, so users of an export cannot do them differently
from the training. The OpenVINO file is made from the ONNX graph.
"""

import contextlib
import io
import json
import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.overrides import TorchFunctionMode

from reconet.errors import ExportError, MissingExtraError, first_line
from reconet.inference.backends import KEY, LABELS, LOGITS, TEXTS, ExportInfo
from reconet.models.fold import fold_batchnorm
from reconet.models.layers import resize
from reconet.models.segmenter import Segmenter
from reconet.models.trained import TrainedNetwork
from reconet.system.files import staged_write, write_bytes


@dataclass(frozen=True, kw_only=True)
class Format:
    """A file format: its suffix, and the function that writes it."""

    suffix: str
    write: Callable[[ExportedProgram, ExportInfo, Path], None]


def write_program(program: ExportedProgram, info: ExportInfo, path: Path) -> None:
    buffer = io.BytesIO()
    with quiet():
        torch.export.save(program, buffer, extra_files={TEXTS: json.dumps(info.texts())})
    write_bytes(path, buffer.getbuffer())


def write_onnx(program: ExportedProgram, info: ExportInfo, path: Path) -> None:
    proto = to_onnx(program)
    for name, text in info.texts().items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = name, text
    write_bytes(path, proto.SerializeToString())


def write_openvino(program: ExportedProgram, info: ExportInfo, path: Path) -> None:
    save_openvino(to_openvino(to_onnx(program)), info, path)


FORMATS: dict[str, Format] = {
    "onnx": Format(suffix=".onnx", write=write_onnx),
    "openvino": Format(suffix=".xml", write=write_openvino),
    "torch": Format(suffix=".pt2", write=write_program),
}


def to_onnx(program: ExportedProgram) -> Any:
    """Convert a traced network to an onnx.ModelProto."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("export", "export to ONNX or OpenVINO") from error
    try:
        with quiet():
            made = torch.onnx.export(
                program,
                dynamo=True,
                input_names=["image"],
                output_names=[LABELS, LOGITS],
                verbose=False,
            )
    except Exception as error:  # the exporter raises errors of many types, pages long
        reason = first_line(error.__cause__ or error)
        raise ExportError(f"torch cannot write this network as ONNX: {reason}") from error
    assert made is not None
    return made.model_proto


def to_openvino(proto: Any) -> Any:
    """Convert an onnx.ModelProto to an openvino.Model."""
    try:
        import openvino
    except ImportError as error:
        raise MissingExtraError("export", "export to OpenVINO") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(proto.SerializeToString())
        core = openvino.Core()
        core.set_property({"ENABLE_MMAP": False})  # the file is deleted after this
        return core.read_model(path)


def save_openvino(model: Any, info: ExportInfo, path: Path) -> None:
    """Write both files of an OpenVINO network, .bin before .xml, each in one move."""
    import openvino

    for name, text in info.texts().items():
        model.set_rt_info(text, [KEY, name])
    with staged_write(path) as temporary:
        openvino.save_model(model, temporary, compress_to_fp16=False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Hide what the libraries print and log, such as nncf's bars. Errors are still raised."""
    before, hidden = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(hidden),
            contextlib.redirect_stderr(hidden),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


class ExportedGraph(nn.Module):
    """image_bchw, RGB uint8 -> labels_bhw, uint8, and logits_bkij as coarse as the features."""

    def __init__(self, model: Segmenter) -> None:
        super().__init__()
        self.model = fold_batchnorm(model).requires_grad_(False).cpu()

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        logits_bkij = self.model.coarse(image)
        logits_bkhw = resize(logits_bkij, (image.shape[2], image.shape[3]))
        return logits_bkhw.argmax(1).to(torch.uint8), logits_bkij


def smallest_side(output_stride: int) -> int:
    """Return the shortest side of an image that the graph takes.

    Every feature map has at least two cells a side, also one of twice the stride. torch.export
    treats maps with one cell as a special case.
    """
    return 2 * output_stride + 1


def trace(model: Segmenter) -> ExportedProgram:
    """Build the graph for any number of images of any size."""
    reason = model.backbone.not_exported
    if reason:
        raise ExportError(f"the backbone {model.backbone.name} cannot be exported: {reason}.")
    stride, least = model.output_stride, smallest_side(model.output_stride)
    # Not square, and at no size that a network is likely to be trained at.
    example = torch.zeros(2, 3, 9 * stride, 11 * stride, dtype=torch.uint8)
    sides = {0: Dim("batch", min=1), 2: Dim("height", min=least), 3: Dim("width", min=least)}
    graph = ExportedGraph(model).eval()
    try:
        with ExportablePooling(), torch.no_grad():
            return torch.export.export(graph, (example,), dynamic_shapes=(sides,))
    except (RuntimeError, ValueError, TypeError) as error:
        raise ExportError(f"torch.export cannot trace this network: {first_line(error)}") from error


class ExportablePooling(TorchFunctionMode):
    """A mode in which adaptive pooling becomes two matrix products.

    Exporters silently unroll adaptive pooling for the size of the example. At other sizes their
    graph is wrong.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.adaptive_avg_pool2d:
            return adaptive_average(*args, **kwargs)
        return func(*args, **kwargs)


def adaptive_average(input: Tensor, output_size: int | tuple[int, int]) -> Tensor:
    """Compute F.adaptive_avg_pool2d as matrix products, for a map whose size may be symbolic."""
    rows, columns = output_size if isinstance(output_size, tuple) else (output_size, output_size)
    if rows == columns == 1:
        return input.mean(dim=(2, 3), keepdim=True)
    row_ih = _averaging_matrix(input.shape[2], rows, input)
    column_wj = _averaging_matrix(input.shape[3], columns, input).transpose(0, 1)
    return row_ih @ (input @ column_wj)


def _averaging_matrix(length: int, count: int, like: Tensor) -> Tensor:
    """Return mean_kn: row k averages the cells from floor(k n / K) to ceil((k + 1) n / K)."""
    bin_k1 = torch.arange(count, device=like.device).unsqueeze(1)
    cell_n = torch.arange(length, device=like.device)
    first_k1 = torch.div(bin_k1 * length, count, rounding_mode="floor")
    last_k1 = torch.div((bin_k1 + 1) * length + (count - 1), count, rounding_mode="floor")
    inside_kn = ((cell_n >= first_k1) & (cell_n < last_k1)).to(like.dtype)
    return inside_kn / (last_k1 - first_k1).to(like.dtype)


def export_info(trained: TrainedNetwork) -> ExportInfo:
    """Describe an fp32 export of a network, for the metadata of its file."""
    return ExportInfo(
        network=trained.info,
        precision="fp32",
        smallest=smallest_side(trained.model.output_stride),
    )
