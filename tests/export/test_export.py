"""Exports compute what the network does, describe themselves, and never replace a good file."""

import re
import shutil
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from torch.export import ExportedProgram

from reconet import CONTEXTS, Predictor, evaluate
from reconet.cli import main
from reconet.data import open_dataset
from reconet.data.scenes.generate import CLASSES
from reconet.errors import ExportError, OutputError
from reconet.export import Difference, export
from reconet.export.formats import FORMATS
from reconet.inference.backends import LABELS, LOGITS, open_exported, was_exported
from reconet.models.trained import load_trained
from tests.export.helpers import EXPORT_MODULE, decided_run, random_image

DOCS = Path(__file__).parents[2] / "docs" / "export.md"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("shape", [(1, 3, 64, 64), (3, 3, 97, 41), (2, 3, 17, 130)])
def test_an_export_computes_what_the_network_does(
    run: Path, exported: dict[str, Path], name: str, shape: tuple[int, ...]
) -> None:
    model = load_trained(run).model
    image_bchw = random_image(*shape)
    opened = open_exported(exported[name], (LABELS, LOGITS), trusted=True)
    label_bhw, logits_bkij = opened(image_bchw)
    with torch.no_grad():
        true_bkhw = model(image_bchw).main_bkhw
        true_bkij = model.coarse(image_bchw)
    torch.testing.assert_close(logits_bkij, true_bkij, rtol=1e-4, atol=1e-4)
    assert label_bhw.dtype == torch.uint8
    assert (label_bhw == true_bkhw.argmax(1)).float().mean() > 0.999


def test_an_export_knows_its_classes_colours_recipe_and_score(
    run: Path, exported: dict[str, Path]
) -> None:
    trained = load_trained(run)
    for path in exported.values():
        info = open_exported(path, trusted=True).info
        assert info.network.classes == CLASSES
        assert info.network.palette == trained.info.palette
        assert info.network.recipe == trained.info.recipe
        assert (info.network.step, info.network.score) == (7, {"miou": 0.5})


def test_the_program_in_the_docs_predicts_nearly_as_predictor_does(
    run: Path, exported: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    program = next(block for block in blocks if "onnxruntime" in block)
    scene = open_dataset("scenes", "val", None, {"size": [150, 230], "val": 1})[0]
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright: turn the stored pixels to the right
    stored = Image.fromarray(np.rot90(scene.image_hwc))
    stored.save(tmp_path / "street.jpg", quality=95, exif=exif)
    shutil.copy(exported["onnx"], tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(program, names)
    true_hw = Predictor.from_run(run, device="cpu")("street.jpg").label_hw
    same = (np.asarray(names["labels"]) == true_hw).mean()
    photo_bchw = np.asarray(names["photo"]).transpose(2, 0, 1)[None]
    (own_bhw,) = names["session"].run(["labels"], {"image": photo_bchw})
    assert same > (own_bhw[0] == true_hw).mean()
    assert same > 0.9


@pytest.mark.parametrize("name", ["onnx", "openvino"])
def test_predictor_and_evaluate_take_an_export(
    run: Path, exported: dict[str, Path], name: str
) -> None:
    image_hwc = random_image(60, 90, 3).numpy()
    ours = Predictor.from_run(run, device="cpu")(image_hwc)
    theirs = Predictor.from_run(exported[name], device="cpu")(image_hwc)
    assert (ours.label_hw == theirs.label_hw).mean() > 0.999
    assert theirs.classes == CLASSES
    scores = [evaluate(path, device="cpu") for path in (run, exported[name])]
    assert scores[0] is not None
    assert scores[1] is not None
    difference = (scores[0].count_kk - scores[1].count_kk).abs().sum()
    assert difference <= 0.002 * scores[0].count_kk.sum()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "onx"], "unknown format 'onx'. Did you mean 'onnx'?"),
        (["--int8"], "--int8 needs --format openvino, got --format onnx."),
        (["--out", "a.pt2"], "--out of format onnx ends in .onnx, got a.pt2."),
        (["--calibrate", "."], "only with --int8: --calibrate."),
        (["--format", "openvino", "--int8", "--calibrate", "EMPTY"], "EMPTY is empty"),
        (["--format", "openvino", "--int8", "--calibrate", "TEXT"], "no .jpg"),
    ],
)
def test_a_wrong_option_is_one_line(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "TEXT").mkdir()
    (tmp_path / "TEXT" / "a.txt").write_text("no image")
    places = [str(tmp_path / word) if word in ("EMPTY", "TEXT") else word for word in arguments]
    assert main(["export", str(run), *places]) == 2
    err = capsys.readouterr().err
    assert message in err.splitlines()[-1]
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["torch", "openvino"])
def test_an_export_that_disagrees_leaves_the_one_before_it(
    run: Path,
    program: ExportedProgram,
    exported: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setattr(EXPORT_MODULE, "trace", lambda model: program)
    path = tmp_path / f"a{FORMATS[name].suffix}"
    before = exported[name].read_bytes()
    path.write_bytes(before)
    path.with_suffix(".bin").write_text("its weights")
    monkeypatch.setattr(Difference, "is_rounding", False)
    with pytest.raises(ExportError, match=f"{path} does not compute what its network does"):
        export(run, format=name, out=path)
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == sorted({path, path.with_suffix(".bin")})


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_replaces_no_file_that_it_did_not_write(
    run: Path, exported: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(EXPORT_MODULE, "trace", lambda *a, **k: pytest.fail("traced"))
    path = tmp_path / f"model{FORMATS[name].suffix}"
    foreign = {
        "text": b"of somebody else",
        "onnx": onnx_model().SerializeToString(),
        "zip": zip_file(tmp_path / "a.zip"),
    }
    for kind, data in foreign.items():
        path.write_bytes(data)
        with pytest.raises(OutputError, match=f"{path} exists and is another kind of file"):
            export(run, format=name, out=path)
        assert path.read_bytes() == data, kind
    assert was_exported(exported[name])
    if name == "openvino":
        path.rename(path.with_suffix(".bin"))
        with pytest.raises(OutputError, match=r"model\.bin exists and is another kind of file"):
            export(run, format=name, out=path)


def onnx_model() -> onnx.ModelProto:
    """Make a network of another program."""
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    return onnx.helper.make_model(onnx.helper.make_graph([], "other", [value], [value]))


def zip_file(path: Path) -> bytes:
    with ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"")
    return path.read_bytes()


@pytest.mark.parametrize(
    "name", ["onnx", *(pytest.param(n, marks=pytest.mark.slow) for n in ("torch", "openvino"))]
)
def test_a_frozen_network_exports_with_its_projection(tmp_path: Path, name: str) -> None:
    # With fewer components the head is so narrow that most of its logits are ties.
    run = decided_run(tmp_path, "model.frozen=true", "model.project=32")
    path = export(run, format=name).path
    image_bchw = random_image(2, 3, 50, 70)
    [logits_bkij] = open_exported(path, (LOGITS,), trusted=True)(image_bchw)
    model = load_trained(run).model
    with torch.no_grad():
        true_bkij = model.coarse(image_bchw)
        torch.nn.init.zeros_(model.state_dict()["project.weight"])
        without_bkij = model.coarse(image_bchw)
    torch.testing.assert_close(logits_bkij, true_bkij, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(logits_bkij, without_bkij, rtol=1e-4, atol=1e-4)


def test_a_context_that_a_format_cannot_express_says_why(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="dmnet cannot be written as onnx: each image has"):
        export(decided_run(tmp_path, "model.context=dmnet"), format="onnx")


@pytest.mark.slow
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", FORMATS)
def test_every_context_exports_at_any_size(tmp_path: Path, context: str, name: str) -> None:
    reason = CONTEXTS[context].info.not_in_onnx
    if name != "torch" and reason:
        pytest.skip(reason)
    result = export(decided_run(tmp_path, f"model.context={context}"), format=name)
    assert all(one.is_rounding for one in result.differences)
