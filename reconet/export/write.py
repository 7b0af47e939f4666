"""A traced network into files: torch's own, ONNX, and OpenVINO's from that ONNX."""

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
from reconet.inference.backends import LABELS, LOGITS
from reconet.inference.backends.export_info import ExportInfo
from reconet.inference.backends.openvino_file import write_texts
from reconet.inference.backends.program_file import TEXTS
from reconet.system.files import made_beside, write_bytes

Write = Callable[[ExportedProgram, ExportInfo, Path], None]


@dataclass(frozen=True, kw_only=True)
class Format:
    suffix: str
    write: Write


def write_program(program: ExportedProgram, info: ExportInfo, path: Path) -> None:
    buffer = io.BytesIO()
    with quiet():
        torch.export.save(program, buffer, extra_files={TEXTS: json.dumps(info.texts())})
    write_bytes(path, buffer.getbuffer())


def write_onnx(program: ExportedProgram, info: ExportInfo, path: Path) -> None:
    proto = as_onnx(program)
    for name, text in info.texts().items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = name, text
    write_bytes(path, proto.SerializeToString())


def write_openvino(program: ExportedProgram, info: ExportInfo, path: Path) -> None:
    save_openvino(as_openvino(as_onnx(program)), info, path)


FORMATS: dict[str, Format] = {
    "onnx": Format(suffix=".onnx", write=write_onnx),
    "openvino": Format(suffix=".xml", write=write_openvino),
    "torch": Format(suffix=".pt2", write=write_program),
}


def as_onnx(program: ExportedProgram) -> Any:
    """The graph as an onnx.ModelProto."""
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
    except Exception as error:  # its errors are of many kinds, and pages long
        reason = first_line(error.__cause__ or error)
        raise ExportError(f"torch cannot write this network as ONNX: {reason}") from error
    assert made is not None
    return made.model_proto


def as_openvino(proto: Any) -> Any:
    """An onnx.ModelProto as an openvino.Model."""
    try:
        import openvino
    except ImportError as error:
        raise MissingExtraError("export", "export to OpenVINO") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(proto.SerializeToString())
        core = openvino.Core()
        core.set_property({"ENABLE_MMAP": False})  # the file is gone after this
        return core.read_model(path)


def save_openvino(model: Any, info: ExportInfo, path: Path) -> None:
    """Both files, each in one move; the weights first, since the other is what one opens."""
    import openvino

    write_texts(model, info.texts())
    with made_beside(path) as made:
        openvino.save_model(model, made, compress_to_fp16=False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the libraries' remarks about themselves, and without nncf's bars; what goes wrong is
    raised all the same."""
    before, nowhere = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
