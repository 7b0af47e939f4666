"""Exported files, opened: a stranger may have written them, so every mistake is one line."""

import json
from pathlib import Path

import onnx
import pytest
import torch

from reconet.cli import main
from reconet.data.scenes.generate import CLASSES
from reconet.errors import CheckpointError, DataError
from reconet.inference import open_network
from reconet.inference.backends import TRUST, open_exported
from tests.export.helpers import random_image

CPU = torch.device("cpu")


def test_a_pt2_is_opened_only_where_its_maker_is_trusted(
    exported: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TRUST, raising=False)
    with pytest.raises(CheckpointError, match=f"can run code.*{TRUST}=1"):
        open_network(exported["torch"], CPU)
    monkeypatch.setenv(TRUST, "1")
    assert open_network(exported["torch"], CPU).how == "torch.export fp32"


def test_an_onnx_file_cannot_read_other_files(exported: dict[str, Path], tmp_path: Path) -> None:
    model = onnx.load(exported["onnx"])
    tensor = next(t for t in model.graph.initializer if t.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../secret")
    path = tmp_path / "evil.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(CheckpointError, match="wants to read another file"):
        open_exported(path)


@pytest.mark.parametrize("name", ["onnx", "openvino"])
def test_an_image_that_is_too_small_is_one_line(exported: dict[str, Path], name: str) -> None:
    with pytest.raises(DataError, match="at least 17 x 17 pixels, got 40 x 16"):
        open_exported(exported[name])(random_image(1, 3, 16, 40))
    with pytest.raises(DataError, match="RGB images of 8 bits"):
        open_exported(exported[name])(torch.zeros(1, 3, 40, 40))


@pytest.mark.parametrize("verb", ["export", "share"])
@pytest.mark.parametrize("name", ["net.onnx", "net.xml", "net.pt2", "last.pt"])
def test_a_verb_that_needs_the_weights_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(b"anything")
    arguments = ["--out", str(tmp_path / "shared")] if verb == "share" else []
    assert main([verb, str(path), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{path} is" in line
    assert "name the run directory or its best.safetensors" in line


@pytest.mark.parametrize("suffix", [".onnx", ".xml", ".pt2"])
def test_a_broken_file_is_one_line(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRUST, "1")
    path = tmp_path / f"a{suffix}"
    with pytest.raises(CheckpointError, match="no exported network at"):
        open_exported(path)
    path.write_bytes(b"nonsense")
    path.with_suffix(".bin").write_bytes(b"")
    with pytest.raises(CheckpointError, match="cannot read") as caught:
        open_exported(path)
    assert "\n" not in str(caught.value)


def test_an_export_of_somebody_else_is_not_ours(tmp_path: Path) -> None:
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    logits = onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, [1])
    node = onnx.helper.make_node("Identity", ["x"], ["logits"])
    graph = onnx.helper.make_graph([node], "other", [value], [logits])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    model.ir_version = 10
    path = tmp_path / "other.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(CheckpointError, match="not written by `reconet export`"):
        open_exported(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("palette", json.dumps([[1, 2, 300]] * len(CLASSES)), "its palette cannot be used"),
        ("palette", "[]", f"0 colours for {len(CLASSES)} classes"),
        ("step", "-5", "its step cannot be used"),
        ("classes", "[]", "its classes cannot be used"),
        ("classes", json.dumps(["x"] * 1000), "its classes cannot be used"),
        ("smallest", "0", "its smallest cannot be used"),
        ("precision", "fp4", "its precision cannot be used"),
        ("int8", "[]", "its int8 cannot be used"),
        ("recipe", '{"a":' * 100_000, "its recipe cannot be used"),
        ("recipe", "{}", "data: field required"),
        ("score", None, "its score is missing"),
    ],
)
def test_what_a_strangers_export_says_of_itself_is_checked(
    exported: dict[str, Path], tmp_path: Path, name: str, text: str | None, message: str
) -> None:
    model = onnx.load(exported["onnx"])
    texts = {entry.key: entry.value for entry in model.metadata_props}
    del model.metadata_props[:]
    for key, value in (texts | {name: text}).items():
        if value is not None:
            model.metadata_props.add(key=key, value=value)
    path = tmp_path / "a.onnx"
    onnx.save(model, path)
    with pytest.raises(CheckpointError, match=message) as caught:
        open_exported(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_an_export_with_fewer_names_than_scores_is_refused_in_use(
    exported: dict[str, Path], tmp_path: Path
) -> None:
    model = onnx.load(exported["onnx"])
    for entry in model.metadata_props:
        if entry.key in ("classes", "palette"):
            entry.value = json.dumps(json.loads(entry.value)[:-1])
    path = tmp_path / "a.onnx"
    onnx.save(model, path)
    network = open_network(path, CPU)
    with pytest.raises(CheckpointError, match="does not give one score for each of its 13 classes"):
        network.forward(torch.zeros(1, 3, 64, 64, dtype=torch.uint8))
