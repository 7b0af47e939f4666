"""Make a network ready to run in each way that is tried.

A way that cannot be tried here raises a ReconetError with the reason.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reconet.errors import ExportError, first_line
from reconet.export.formats import quiet, save_onnx, save_openvino, to_onnx, to_openvino
from reconet.export.graph import export_info, trace
from reconet.export.int8 import kept_in_fp32, quantise
from reconet.export.sample_images import windows_of
from reconet.inference.backends import open_exported
from reconet.inference.fast import Way, load_compiled
from reconet.inference.network import make_exported_network, make_forward
from reconet.inference.protocol import Protocol
from reconet.inference.windows import Forward
from reconet.models.trained import TrainedNetwork
from reconet.system.hardware import bf16_works, make_bf16_safe
from reconet.types import Image

COMPILERS = ("c++", "g++", "clang++")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A network that is ready to run in one way."""

    name: str
    way: Way
    forward: Forward
    file: Path | None = None
    gentler: "Make | None" = None  # the same way with less rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """The network to run, images to calibrate by, and a folder for its files."""

    trained: TrainedNetwork
    device: torch.device
    calibrated: Sequence[Image]  # none if there are no real images
    protocol: Protocol
    folder: Path

    @cached_property
    def program(self) -> torch.export.ExportedProgram:
        return trace(self.trained.model)

    @cached_property
    def proto(self) -> Any:
        """Return the ONNX graph, from which OpenVINO's is made too."""
        context = self.trained.model.context.info
        if context.not_in_onnx:
            raise ExportError(context.not_in_onnx)
        return to_onnx(self.program)

    @cached_property
    def windows(self) -> list[NDArray[np.uint8]]:
        """Return one window of each image to calibrate by: of the first image the first ..."""
        windows = []
        for number, image_hwc in enumerate(self.calibrated):
            every_bchw = windows_of(image_hwc, self.protocol)
            index = number % len(every_bchw)
            windows.append(every_bchw[index : index + 1])
        return windows


Make = Callable[[Subject], Candidate]


def _exported(name: str, path: Path) -> Candidate:
    opened = open_exported(path, trusted=True)
    return Candidate(
        name=name, way="exported", forward=make_exported_network(opened).forward, file=path
    )


def make_int8(subject: Subject, attempt: int = 0) -> Candidate:
    """Quantise a network. Later attempts keep more of it in fp32."""
    if not subject.calibrated:
        raise ExportError("no real images to calibrate by")
    choices = kept_in_fp32(subject.trained.model)
    model = quantise(subject.proto, subject.windows, choices[attempt])
    path = subject.folder / f"int8-{attempt}.xml"
    save_openvino(model, replace(export_info(subject.trained), precision="int8"), path)
    made = _exported("OpenVINO int8", path)
    if attempt:
        parts = ", ".join(name.removeprefix("model.") for name in choices[attempt])
        made = replace(made, name=f"OpenVINO int8 but for {parts}")
    if attempt + 1 < len(choices):
        made = replace(made, gentler=partial(make_int8, attempt=attempt + 1))
    return made


def make_openvino(subject: Subject) -> Candidate:
    path = subject.folder / "openvino.xml"
    save_openvino(to_openvino(subject.proto), export_info(subject.trained), path)
    return _exported("OpenVINO fp32", path)


def make_onnx(subject: Subject) -> Candidate:
    path = subject.folder / "onnx.onnx"
    save_onnx(subject.proto, export_info(subject.trained), path)
    return _exported("ONNX Runtime fp32", path)


def make_bf16(subject: Subject) -> Candidate:
    if not subject.calibrated:
        raise ExportError("no real images to compare on")
    if subject.device.type == "cpu" and not (make_bf16_safe() and bf16_works()):
        raise ExportError("this CPU has no bf16")
    forward = make_forward(subject.trained.model, subject.device, torch.bfloat16)
    return Candidate(name="torch bf16", way="bf16", forward=forward)


def make_compiled(subject: Subject) -> Candidate:
    """Compile ahead of time, so that the next process need not compile again."""
    if not any(map(shutil.which, COMPILERS)):
        raise ExportError("there is no C++ compiler")
    path = subject.folder / "compiled.pt2"
    try:
        with quiet():
            torch._inductor.aoti_compile_and_package(subject.program, package_path=str(path))
    except Exception as error:  # the compiler raises errors of many types
        raise ExportError(f"torch cannot compile it: {first_line(error)}") from error
    return Candidate(
        name="torch.compile fp32", way="compiled", forward=load_compiled(path), file=path
    )


# The ways for a CPU. On a GPU only those of torch's own kernels are tried.
WAYS: dict[str, Make] = {
    "OpenVINO int8": make_int8,
    "OpenVINO fp32": make_openvino,
    "ONNX Runtime fp32": make_onnx,
    "torch bf16": make_bf16,
}
GPU_WAYS = ("torch bf16",)
# It takes minutes to make and loses to the exports, so it is tried only where there are none.
COMPILED = "torch.compile fp32"
