"""Graphs that anybody may have written: they run within limits, or end in one line."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from reconet.errors import CheckpointError
from reconet.inference import backends as exported_module
from reconet.inference.backends import open_exported, probe_export
from reconet.inference.network import hash_files
from tests.fuzz.graphs import doubling

IMAGE = helper.make_tensor_value_info("image", TensorProto.UINT8, ["b", 3, "h", "w"])
LOGITS = helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(exported_module, "probe_export", partial(probe_export, seconds=20))


def constant(name: str, value: object, kind: type) -> onnx.NodeProto:
    tensor = numpy_helper.from_array(np.array(value, kind))
    return helper.make_node("Constant", [], [name], value=tensor)


def endless() -> list[onnx.NodeProto]:
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_in"], ["go_out"]),
            helper.make_node("Add", ["x_in", "x_in"], ["x_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go_in", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x_in", TensorProto.FLOAT, [1, 1, 1, 1]),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x_out", TensorProto.FLOAT, [1, 1, 1, 1]),
        ],
    )
    return [
        constant("turns", 2**62, np.int64),
        constant("go", True, np.bool_),
        constant("x", np.ones((1, 1, 1, 1)), np.float32),
        helper.make_node("Loop", ["turns", "go", "x"], ["logits"], body=body),
    ]


def huge() -> list[onnx.NodeProto]:
    return [
        constant("shape", [1, 8, 2**20, 2**20], np.int64),
        helper.make_node("ConstantOfShape", ["shape"], ["logits"]),
    ]


def shaped(*shape: int) -> list[onnx.NodeProto]:
    return [constant("logits", np.zeros(shape), np.float32)]


def save_with_texts(
    path: Path,
    like: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    functions: Sequence[onnx.FunctionProto] = (),
    output: onnx.ValueInfoProto = LOGITS,
) -> None:
    """Save a graph that says the same of itself as a real export."""
    graph = helper.make_graph(nodes, "strange", inputs, [output])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=functions)
    model.ir_version = 10
    model.metadata_props.extend(onnx.load(like).metadata_props)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("nodes", "inputs", "message"),
    [
        (endless, [IMAGE], "more memory or time than a network needs|did not run within"),
        (huge, [IMAGE], "cannot be run|more memory"),
        (partial(shaped, 1, 8, 4, 4), [], "does not take one image of 8 bits"),
        (partial(shaped, 2, 8, 4, 4), [IMAGE], r"shape \(2, 8, 4, 4\) for 1 image"),
        (partial(shaped, 1, 8, 0, 4), [IMAGE], r"shape \(1, 8, 0, 4\)"),
        (partial(shaped, 8), [IMAGE], r"shape \(8,\)"),
    ],
    ids=["endless", "huge", "no-input", "another-batch", "no-places", "no-map"],
)
def test_a_strange_graph_is_one_line(
    exported: dict[str, Path],
    tmp_path: Path,
    nodes: Callable[[], list[onnx.NodeProto]],
    inputs: list[onnx.ValueInfoProto],
    message: str,
) -> None:
    path = tmp_path / "strange.onnx"
    save_with_texts(path, exported["onnx"], nodes(), inputs)
    with pytest.raises(CheckpointError, match=message) as caught:
        open_exported(path)(torch.zeros(1, 3, 64, 64, dtype=torch.uint8))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [np.str_, np.bool_, list])
def test_an_output_that_is_no_array_of_numbers_is_one_line(
    exported: dict[str, Path], tmp_path: Path, kind: type
) -> None:
    nodes = [constant("logits", np.zeros((1, 8, 4, 4)), kind)] if kind is not list else a_list()
    output = {
        np.str_: helper.make_tensor_value_info("logits", TensorProto.STRING, None),
        np.bool_: helper.make_tensor_value_info("logits", TensorProto.BOOL, None),
        list: helper.make_tensor_sequence_value_info("logits", TensorProto.FLOAT, None),
    }[kind]
    path = tmp_path / "strange.onnx"
    save_with_texts(path, exported["onnx"], nodes, [IMAGE], output=output)
    with pytest.raises(CheckpointError, match="no array of numbers"):
        open_exported(path, trusted=True)(torch.zeros(1, 3, 64, 64, dtype=torch.uint8))


def a_list() -> list[onnx.NodeProto]:
    zeros = constant("zeros", np.zeros((1, 8, 4, 4)), np.float32)
    return [zeros, helper.make_node("SequenceConstruct", ["zeros"], ["logits"])]


def test_functions_that_expand_to_a_hundred_million_nodes_are_one_line(
    exported: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported_module, "probe_export", partial(probe_export, seconds=6))
    nodes, functions = doubling("logits", depth=27)
    path = tmp_path / "strange.onnx"
    save_with_texts(path, exported["onnx"], nodes, [IMAGE], functions)
    assert path.stat().st_size < 100_000
    with pytest.raises(CheckpointError, match=r"more memory or time|did not run within") as caught:
        open_exported(path)
    assert "\n" not in str(caught.value)


def test_an_export_is_probed_once(
    exported: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_exported(exported["onnx"])
    assert (tmp_path / "cache/probed" / hash_files(exported["onnx"])).is_file()

    def refuse(*arguments: object, **settings: object) -> None:
        raise AssertionError("it was probed again")

    monkeypatch.setattr("subprocess.run", refuse)
    open_exported(exported["onnx"])
