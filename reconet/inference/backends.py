"""Run exported networks, each by the library that its format was made for.

All formats have one interface: image, RGB uint8 (b, 3, h, w) -> labels, uint8 (b, h, w), and
logits, float (b, k, i, j) at the resolution of the features. To add a format, write a function that
opens it and add one line to BACKENDS.

ONNX and OpenVINO files are data, but a graph can hold a loop of any length, or ask for any amount
of memory. So a stranger's file is first run once in a process with limits. One that passed is
remembered by its digest, like those that `reconet export` wrote on this machine. torch reads parts
of a .pt2 file as pickles and evaluates the expressions for their sizes as Python. So it is opened
only if the user says that its maker is trusted.
"""

import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self
from zipfile import BadZipFile, ZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, Field, Json
from torch import Tensor

from reconet.errors import (
    CheckpointError,
    DataError,
    MissingExtraError,
    ReconetError,
    first_line,
    pick,
)
from reconet.inference.network import hash_files
from reconet.models.trained import FORMAT, NetworkInfo, check_texts
from reconet.system.files import write_text
from reconet.system.hardware import make_bf16_safe
from reconet.system.readable import counted
from reconet.system.reading import WEIGHTS_BYTES, check_file, open_file, read_file
from reconet.system.user_cache import cache_root

LABELS, LOGITS = "labels", "logits"  # the outputs, in this order
KEY = "reconet"  # of the texts of an OpenVINO file, which keeps other metadata beside them
TEXTS = "reconet.json"  # among the extra files of a .pt2 archive
TRUST = "RECONET_TRUST_PT2"
NUMBERS = "fiu"  # kinds of types: floats, integers and unsigned integers
PROBED = "probed"  # in the cache: an empty file for each export that ran within limits
SECONDS = 120  # far more than any network of this package needs for an image of some pixels
SPARE_BYTES, COPIES = 6 * 2**30, 8  # of memory: some bytes, and some copies of the file

Run = Callable[[NDArray[np.uint8]], Sequence[NDArray[np.generic]]]  # image_bchw -> outputs


class OpenedFile(NamedTuple):
    """An exported file as its library opened it, before anything in it is checked."""

    texts: Mapping[str, str]  # the metadata
    library: str  # the name of what runs it, for people
    prepare: Callable[[], Run]  # makes it ready to run; until then nothing in it is computed


@dataclass(frozen=True, kw_only=True)
class ExportInfo:
    """The network of an exported file, its precision, and the images that it takes."""

    network: NetworkInfo
    precision: str  # of the weights and products: fp32 or int8
    smallest: int  # shortest side of an image that it takes
    int8: dict[str, Any] = field(default_factory=dict)  # how it was made, how much score it lost

    def texts(self) -> dict[str, str]:
        """Write the record as texts, the metadata of a file."""
        data = self.network.recipe.data
        return self.network.texts() | {
            # The recipe holds these too, but other programs can read them more easily here.
            "base_size": str(data.base_size),
            "crop": json.dumps(data.crop),
            "precision": self.precision,
            "smallest": str(self.smallest),
            "int8": json.dumps(self.int8),
        }

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], source: Path) -> Self:
        """Check the metadata of a file, which anybody may have written."""
        if texts.get("format") != FORMAT:
            raise CheckpointError(
                f"{source} was not written by `reconet export`: it does not say what network it is."
            )
        network = NetworkInfo.from_texts(texts, source)
        return cls(network=network, **dict(check_texts(_ExportTexts, texts, source)))


class _ExportTexts(BaseModel):
    precision: Literal["fp32", "int8"]
    smallest: Annotated[int, Field(ge=1)]
    int8: Json[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class ExportedNetwork:
    """A network of an exported file, ready to run. Threads may share one."""

    source: Path
    info: ExportInfo
    how: str
    run: Run

    def __call__(self, image_bchw: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs that the file was opened for, on the device of the image.

        They are computed on the CPU.
        """
        shape, least = tuple(image_bchw.shape), self.info.smallest
        if image_bchw.dtype != torch.uint8 or len(shape) != 4 or shape[1] != 3 or not shape[0]:
            raise DataError(
                f"{self.source} takes RGB images of 8 bits, (b, 3, h, w), got "
                f"{str(image_bchw.dtype).removeprefix('torch.')} {shape}."
            )
        if min(shape[2:]) < least:
            raise DataError(
                f"{self.source} takes images of at least {least} x {least} pixels, got "
                f"{shape[3]} x {shape[2]}; the network that it was exported from takes any size."
            )
        try:
            outputs = self.run(image_bchw.cpu().numpy())
        except Exception as error:  # each library raises errors of its own kind
            raise CheckpointError(f"{self.source} cannot be run: {first_line(error)}.") from error
        for one in outputs:
            if not isinstance(one, np.ndarray) or one.dtype.kind not in NUMBERS:
                raise CheckpointError(f"{self.source} gives an output that is no array of numbers.")
            if one.ndim < 3 or one.shape[0] != len(image_bchw) or 0 in one.shape:
                raise CheckpointError(
                    f"{self.source} gives an output of shape {one.shape} for "
                    f"{counted(len(image_bchw), 'image')}, which no network does."
                )
        return tuple(torch.from_numpy(np.asarray(one)).to(image_bchw.device) for one in outputs)

    def logits(self, image_bchw: Tensor) -> Tensor:
        """Return the logits of a file that was opened for them alone."""
        (logits_bkij,) = self(image_bchw)
        classes = len(self.info.network.classes)
        if logits_bkij.ndim != 4 or logits_bkij.shape[1] != classes:
            raise CheckpointError(
                f"{self.source} does not give one score for each of its {classes} classes."
            )
        return logits_bkij


def was_exported(path: Path) -> bool:
    """Tell whether `reconet export` wrote a file. Nothing in it is run."""
    if path.suffix == ".xml":  # it may have lost its .bin
        return f"<{KEY}>".encode() in read_file(path, limit=WEIGHTS_BYTES)
    if path.suffix == ".pt2":
        with suppress(BadZipFile), open_file(path, limit=WEIGHTS_BYTES) as file:
            return any(name.endswith(f"/{TEXTS}") for name in ZipFile(file).namelist())
        return False
    with suppress(ReconetError):
        return "recipe" in BACKENDS[path.suffix](path, ()).texts
    return False


def open_exported(
    source: Path, outputs: Sequence[str] = (LOGITS,), *, trusted: bool = False
) -> ExportedNetwork:
    """Open an exported file for some of its outputs. Other outputs are not computed.

    `trusted` allows a .pt2 file, which may run code: set it only if its maker is trusted. A graph
    that is not trusted is first run in another process, with limits.
    """
    open_file = pick(BACKENDS, source.suffix, "format of an export")
    if not source.is_file():
        raise CheckpointError(f"no exported network at {source}.")
    if open_file is open_pt2 and not trusted and os.environ.get(TRUST) != "1":
        raise CheckpointError(
            f"{source}: opening a .pt2 file can run code that is in it. If you trust who made it, "
            f"set {TRUST}=1; ONNX and OpenVINO files need no trust."
        )
    opened = open_file(source, outputs)
    info = ExportInfo.from_texts(opened.texts, source)
    if not trusted and open_file is not open_pt2:
        probe_export(source)
    how = f"{opened.library} {info.precision}"
    return ExportedNetwork(source=source, info=info, how=how, run=opened.prepare())


@contextmanager
def _one_line_errors(source: Path) -> Iterator[None]:
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:  # of many kinds; some messages cannot even be decoded
        lines = str(error).strip().splitlines() or ["no reason"]
        # OpenVINO's reason stands last, after where it arose.
        reason = lines[-1 if source.suffix == ".xml" else 0].strip().rstrip(".")
        raise CheckpointError(f"cannot read {source}: {reason}.") from error


def open_onnx(source: Path, outputs: Sequence[str]) -> OpenedFile:
    """Open an .onnx file by ONNX Runtime."""
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
        inputs = session.get_inputs()
        if len(inputs) != 1 or inputs[0].type != "tensor(uint8)":
            raise CheckpointError(f"{source} does not take one image of 8 bits, as exports do.")
        if not {output.name for output in session.get_outputs()}.issuperset(outputs):
            raise CheckpointError(f"{source} does not give {' and '.join(outputs)}, as exports do.")

        def run(image_bchw: NDArray[np.uint8]) -> Sequence[NDArray[np.generic]]:
            result: Sequence[NDArray[np.generic]] = session.run(
                list(outputs), {inputs[0].name: image_bchw}
            )
            return result

        return run

    return OpenedFile(texts, "ONNX Runtime", prepare)


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


def open_openvino(source: Path, outputs: Sequence[str], *, precision: str = "f32") -> OpenedFile:
    """Open an .xml file, with its .bin, by OpenVINO.

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
        own = model.get_rt_info([KEY]).value if model.has_rt_info([KEY]) else {}
        # Plain strings or wrapped ones, as the version of OpenVINO likes.
        texts = {name: str(getattr(text, "value", text)) for name, text in own.items()}

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


def open_pt2(source: Path, outputs: Sequence[str]) -> OpenedFile:
    """Open a .pt2 file by torch.export. It may run code."""
    extra = {TEXTS: "{}"}
    with _one_line_errors(source), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about torch's own internals
        module = torch.export.load(source, extra_files=extra).module()

    @torch.inference_mode()
    def run(image_bchw: NDArray[np.uint8]) -> Sequence[NDArray[np.generic]]:
        results = dict(zip((LABELS, LOGITS), module(torch.from_numpy(image_bchw)), strict=True))
        return [results[name].numpy() for name in outputs]

    return OpenedFile(json.loads(extra[TEXTS]), "torch.export", lambda: run)


BACKENDS: dict[str, Callable[[Path, Sequence[str]], OpenedFile]] = {
    ".onnx": open_onnx,
    ".pt2": open_pt2,
    ".xml": open_openvino,
}


def probe_export(source: Path, *, seconds: int = SECONDS) -> None:
    """Raise an error if a file cannot be opened and run within limits of time and memory."""
    digest = hash_files(source)  # before the probe: the file may be swapped meanwhile
    if (cache_root() / PROBED / digest).is_file():
        return
    weights, size = source.with_suffix(".bin"), source.stat().st_size
    if source.suffix == ".xml" and weights.is_file():
        size += weights.stat().st_size
    limits = [str(seconds), str(SPARE_BYTES + COPIES * size)]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "reconet.inference.backends", str(source), *limits],
            capture_output=True,
            timeout=seconds + 30,  # it stops by itself after `seconds` of work
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CheckpointError(f"{source} did not run within {seconds} seconds.") from error
    if done.returncode < 0:
        raise CheckpointError(
            f"{source} asked for more memory or time than a network needs ({seconds} s)."
        )
    if done.returncode:
        reason = (done.stderr.decode(errors="replace").strip() or "no reason").splitlines()[-1]
        known = done.returncode == 2  # then it is a whole sentence
        raise CheckpointError(reason if known else f"{source} cannot be run: {reason}.")
    remember_export(source, digest)


def remember_export(source: Path, digest: str | None = None) -> None:
    """Remember that a file runs, so that it is not probed again."""
    with suppress(ReconetError):  # a cache that cannot be written costs a probe, no more
        write_text(cache_root() / PROBED / (digest or hash_files(source)), "")


def _run_once(source: Path, seconds: int, memory: int) -> None:
    """Run a file on one image, with limits on this process."""
    with suppress(ImportError):  # Windows has no limits
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    opened = open_exported(source, trusted=True)
    side = max(opened.info.smallest, 64)
    opened(torch.zeros(1, 3, side, side, dtype=torch.uint8))


if __name__ == "__main__":
    try:
        _run_once(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    except (ReconetError, MemoryError) as error:
        print(str(error) or f"{sys.argv[1]} asks for too much memory.", file=sys.stderr)
        sys.exit(2)
