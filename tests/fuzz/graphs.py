"""Make ONNX files that anybody may have written: any nodes, inputs, outputs and texts."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from reconet import Predictor
from reconet.export import export
from reconet.inference import backends as exported_module
from tests.factories import tiny_network, tiny_recipe, write_run

Rng = np.random.Generator
TYPES = [TensorProto.UINT8] * 6 + [TensorProto.FLOAT, TensorProto.STRING, TensorProto.INT64]
SHAPES: list[Any] = [["b", 3, "h", "w"]] * 4 + [None, [], [1, 3, 64, 64], ["b", 4, "h", "w"], [0]]
OUTPUTS = [
    *((1, 14, 8, 8), (1, 14, 8, 8), (1, 2, 8, 8), (2, 14, 8, 8), (1, 14, 0, 8), (14,), ()),
    *((1, 14, 8), (1, 14, 8, 8, 1), (1, 300, 8, 8), (1, 0, 8, 8), (1, 14, 1, 1)),
]
KINDS = [np.float32] * 4 + [np.float64, np.float16, np.int64, np.bool_, np.uint8, np.str_]
HOSTILE_TEXTS = [
    "",
    "{}",
    "[]",
    "null",
    "NaN",
    "-1",
    "[" * 3000,
    "\x1b[2J",
    "9" * 5000,
    "x" * 10**6,
]


@cache
def real_texts() -> dict[str, str]:
    """Export a tiny network once, and return what its file says of itself."""
    folder = Path(tempfile.mkdtemp(prefix="reconet-fuzz-graph-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    run = write_run(folder / "run", tiny_network(tiny_recipe("model.rank=2", "model.aux=false")))
    path = export(run, format="onnx", out=folder / "model.onnx").path
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def choose(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(0, len(choices)))]


def constant(name: str, rng: Rng) -> onnx.NodeProto:
    """Make an output that does not depend on the image."""
    value = np.zeros(choose(rng, OUTPUTS), choose(rng, KINDS))
    if value.dtype.kind == "f" and rng.random() < 0.3:
        value[...] = choose(rng, [np.nan, np.inf, -np.inf])
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


def computed(name: str, rng: Rng) -> list[onnx.NodeProto]:
    """Make an output of the image, by operations that may not fit together."""
    nodes = [helper.make_node("Cast", ["image"], ["t0"], to=TensorProto.FLOAT)]
    count = int(rng.integers(1, 5))
    for number in range(count):
        before, after = f"t{number}", name if number == count - 1 else f"t{number + 1}"
        operation = choose(
            rng,
            ["Relu", "Identity", "ReduceMean", "Flatten", "Nothing", "Shape", "NonZero", "Size"],
        )
        nodes.append(helper.make_node(operation, [before], [after]))
    return nodes


def doubling(name: str, depth: int) -> tuple[list[onnx.NodeProto], list[onnx.FunctionProto]]:
    """Make functions of which each calls the one before twice: 2 to the power `depth` nodes."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    functions = []
    for level in range(depth):
        inner, domain = (f"f{level - 1}", "own") if level else ("Identity", "")
        nodes = [
            helper.make_node(inner, ["x"], ["m"], domain=domain),
            helper.make_node(inner, ["m"], ["y"], domain=domain),
        ]
        functions.append(helper.make_function("own", f"f{level}", ["x"], ["y"], nodes, imports))
    start = numpy_helper.from_array(np.zeros((1, 14, 8, 8), np.float32))
    return [
        helper.make_node("Constant", [], ["start"], value=start),
        helper.make_node(f"f{depth - 1}", ["start"], [name], domain="own"),
    ], functions


def strange_graph(rng: Rng, path: Path) -> None:
    """Write a graph with any nodes and any interface, that says it were an export of ours."""
    functions: list[onnx.FunctionProto] = []
    name = choose(rng, ["logits"] * 6 + ["", "labels", "\x1b[2J"])
    match int(rng.integers(0, 5)):
        case 0:
            nodes = computed(name, rng)
        case 1:
            nodes, functions = doubling(name, int(rng.integers(1, 9)))
        case _:
            nodes = [constant(name, rng)]
    inputs = [
        helper.make_tensor_value_info(f"image{n or ''}", choose(rng, TYPES), choose(rng, SHAPES))
        for n in range(int(choose(rng, [0, 1, 1, 1, 1, 2])))
    ]
    kind = choose(rng, [TensorProto.FLOAT] * 4 + [TensorProto.INT64, TensorProto.STRING])
    outputs = [helper.make_tensor_value_info(name, kind, choose(rng, [None, None, [1], ["b"]]))]
    imports = [helper.make_opsetid("", int(choose(rng, [18, 18, 18, 1, 999])))]
    graph = helper.make_graph(nodes, "strange", inputs, outputs)
    imports.append(helper.make_opsetid("own", 1))
    model = helper.make_model(graph, opset_imports=imports, functions=functions)
    model.ir_version = int(choose(rng, [10, 10, 10, 3, 99]))
    texts = dict(real_texts())
    for _ in range(int(choose(rng, [0, 0, 0, 1, 2]))):
        texts[choose(rng, list(texts))] = choose(rng, HOSTILE_TEXTS)
    helper.set_model_props(model, texts)
    path.write_bytes(model.SerializeToString())


def use_strange_graph(rng: Rng, folder: Path) -> None:
    """Predict an image with a strange graph, in this process: no graph here is endless."""
    vars(exported_module)["probe_export"] = _no_probe
    strange_graph(rng, folder / "strange.onnx")
    predictor = Predictor.from_run(folder / "strange.onnx", device="cpu")
    predictor(rng.integers(0, 256, (70, 90, 3), np.uint8))


def _no_probe(source: Path, **settings: object) -> None:
    """Do nothing: test_strange_graphs.py tries the probe, which takes a process for each file."""
