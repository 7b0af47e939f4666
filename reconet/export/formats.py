"""Write a traced network as a file of torch.export, ONNX or OpenVINO.

The OpenVINO file is made from the ONNX graph.
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
from torch.export import ExportedProgram

from reconet.errors import ExportError, MissingExtraError, first_line
from reconet.inference.backends import LABELS, LOGITS, TEXTS, ExportInfo, write_texts
from reconet.system.files import staged_write, write_bytes

Write = Callable[[ExportedProgram, ExportInfo, Path], None]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A file format: its suffix, and the function that writes it."""

    suffix: str
    write: Write


def write_program(program: ExportedProgram, info: ExportInfo, path: Path) -> None:
    buffer = io.BytesIO()
    with quiet():
        torch.export.save(program, buffer, extra_files={TEXTS: json.dumps(info.texts())})
    write_bytes(path, buffer.getbuffer())


def write_onnx(program: ExportedProgram, info: ExportInfo, path: Path) -> None:
    save_onnx(to_onnx(program), info, path)


def save_onnx(proto: Any, info: ExportInfo, path: Path) -> None:
    """Write an onnx.ModelProto, with its metadata."""
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

    write_texts(model, info.texts())
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
