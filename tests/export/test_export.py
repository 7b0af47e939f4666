"""Exports: they compute what the network does, say what they are, and refuse what is wrong."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch.export import ExportedProgram

from reconet.cli import main
from reconet.data import open_dataset
from reconet.data.images.read import write_index
from reconet.data.scenes.generate import CLASSES
from reconet.errors import (
    AbsentError,
    CheckpointError,
    DataError,
    ExportError,
    OutputError,
    ReconetError,
)
from reconet.evaluation.evaluate import evaluate_run
from reconet.export import export
from reconet.export.check import Difference, refuse
from reconet.export.graph import NOT_IN_ONNX, pooled, trace
from reconet.export.images import of_recipe
from reconet.export.write import FORMATS, as_openvino, save_openvino
from reconet.inference.backends import LABELS, LOGITS, RUNTIMES, open_file
from reconet.inference.backends.program_file import TRUST
from reconet.inference.network import open_network
from reconet.inference.predictor import Predictor
from reconet.models.context import CONTEXTS
from reconet.models.trained import EXPORTED, load_trained
from reconet.recipes import find_recipe
from reconet.recipes.overrides import apply_overrides
from tests.data.trees import make_tree
from tests.export.trained import tiny_run

DOCS = Path(__file__).parents[2] / "docs" / "export.md"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def program(run: Path) -> ExportedProgram:
    return trace(load_trained(run).model, output_stride=8)


@pytest.fixture(scope="module")
def exported(run: Path, program: ExportedProgram) -> dict[str, Path]:
    """As `export` makes them, but traced once; OpenVINO's from the same ONNX."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reconet.export.trace", lambda model, output_stride: program)
        paths = {name: export(run, format=name).path for name in ("onnx", "torch")}
    paths["openvino"] = run / "model.xml"
    info = open_file(paths["onnx"]).info
    save_openvino(as_openvino(onnx.load(paths["onnx"])), info, paths["openvino"])
    return paths


def random_image(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("shape", [(1, 3, 64, 64), (3, 3, 97, 41), (2, 3, 17, 130)])
def test_an_export_computes_what_the_network_does(
    run: Path, exported: dict[str, Path], name: str, shape: tuple[int, ...]
) -> None:
    model = load_trained(run).model
    image_bchw = random_image(*shape)
    opened = open_file(exported[name], (LABELS, LOGITS), trusted=True)
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
        info = open_file(path, trusted=True).info
        assert info.network.classes == CLASSES
        assert info.network.palette == trained.info.palette
        assert info.network.recipe == trained.info.recipe
        assert (info.network.step, info.network.score) == (7, {"miou": 0.5})


def test_onnx_needs_nothing_of_ours(exported: dict[str, Path]) -> None:
    session = onnxruntime.InferenceSession(exported["onnx"])
    image_bchw = random_image(1, 3, 50, 70).numpy()
    (label_bhw,) = session.run(["labels"], {"image": image_bchw})
    assert (label_bhw.shape, label_bhw.dtype) == ((1, 50, 70), np.uint8)
    texts = session.get_modelmeta().custom_metadata_map
    assert json.loads(texts["classes"]) == list(CLASSES)
    assert (texts["base_size"], json.loads(texts["crop"])) == ("64", [64, 64])


def test_the_program_in_the_docs_says_nearly_what_predictor_says(
    run: Path, exported: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    program = next(block for block in blocks if "onnxruntime" in block)
    scene = open_dataset("scenes", "val", None, {"size": [150, 230], "val": 1})[0]
    Image.fromarray(scene.image_hwc).save(tmp_path / "street.jpg", quality=95)
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
    scores = [evaluate_run(path, device="cpu") for path in (run, exported[name])]
    assert scores[0] is not None
    assert scores[1] is not None
    difference = (scores[0].count_kk - scores[1].count_kk).abs().sum()
    assert difference <= 0.002 * scores[0].count_kk.sum()


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
        open_file(path)


@pytest.mark.parametrize("name", ["onnx", "openvino"])
def test_a_image_that_is_too_small_is_one_line(exported: dict[str, Path], name: str) -> None:
    with pytest.raises(DataError, match="at least 17 x 17 pixels, got 40 x 16"):
        open_file(exported[name])(random_image(1, 3, 16, 40))
    with pytest.raises(DataError, match="RGB images of 8 bits"):
        open_file(exported[name])(torch.zeros(1, 3, 40, 40))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "onx"], "unknown format 'onx'. Did you mean 'onnx'?"),
        (["--int8"], "--int8 is made for OpenVINO; got --format onnx."),
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


def test_what_cannot_be_opened_says_what_to_name(tmp_path: Path) -> None:
    assert set(EXPORTED) == set(RUNTIMES)
    (tmp_path / "last.pt").write_bytes(b"anything")
    with pytest.raises(CheckpointError, match=r"resumes from: name the run directory"):
        open_network(tmp_path / "last.pt", CPU)
    with pytest.raises(CheckpointError, match=r"at .*none: it does not exist"):
        open_network(tmp_path / "none", CPU)


@pytest.mark.parametrize("suffix", [".onnx", ".xml", ".pt2"])
def test_a_broken_file_is_one_line(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRUST, "1")
    path = tmp_path / f"a{suffix}"
    with pytest.raises(CheckpointError, match="no exported network at"):
        open_file(path)
    path.write_bytes(b"nonsense")
    path.with_suffix(".bin").write_bytes(b"")
    with pytest.raises(CheckpointError, match="cannot read") as caught:
        open_file(path)
    assert "\n" not in str(caught.value)


def test_an_export_of_somebody_else_is_not_ours(tmp_path: Path) -> None:
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    said = onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, [1])
    node = onnx.helper.make_node("Identity", ["x"], ["logits"])
    graph = onnx.helper.make_graph([node], "other", [value], [said])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    model.ir_version = 10
    path = tmp_path / "other.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(CheckpointError, match="not written by `reconet export`"):
        open_file(path)


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
        open_file(path)
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
    network = open_network(path, torch.device("cpu"))
    with pytest.raises(CheckpointError, match="does not tell its 13 classes apart"):
        network.forward(torch.zeros(1, 3, 64, 64, dtype=torch.uint8))


def test_an_export_that_cannot_be_run_says_so_in_one_line(exported: dict[str, Path]) -> None:
    def fail(image_bchw: object) -> Any:
        raise ValueError("no kernel\nat line 7")

    opened = replace(open_file(exported["onnx"]), run=fail)
    with pytest.raises(CheckpointError, match=r"cannot be run: no kernel\.$"):
        opened(torch.zeros(1, 3, 64, 64, dtype=torch.uint8))


def test_an_export_that_disagrees_is_an_error() -> None:
    good = Difference(images=1, size=(64, 64), logits=1e-6, labels=1.0)
    refuse(Path("a.onnx"), [good])
    for bad in (
        Difference(images=1, size=(8, 9), logits=2e-3, labels=1.0),
        Difference(images=1, size=(8, 9), logits=1e-6, labels=0.99),
    ):
        with pytest.raises(ExportError, match="does not compute what its network does: 1 x 8 x 9"):
            refuse(Path("a.onnx"), [good, bad])


@pytest.mark.parametrize("name", ["torch", "openvino"])
def test_an_export_that_disagrees_leaves_the_one_before_it(
    run: Path,
    program: ExportedProgram,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    monkeypatch.setattr("reconet.export.trace", lambda model, output_stride: program)
    path = tmp_path / f"a{FORMATS[name].suffix}"
    path.write_text("the one before")
    path.with_suffix(".bin").write_text("its weights")
    monkeypatch.setattr(Difference, "fine", False)
    with pytest.raises(ExportError, match=f"{path} does not compute what its network does"):
        export(run, format=name, out=path)
    assert path.read_text() == "the one before"
    assert sorted(tmp_path.iterdir()) == sorted({path, path.with_suffix(".bin")})


def test_an_export_that_cannot_be_put_in_its_place_is_told_before_the_tracing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconet.export.trace", lambda *a, **k: pytest.fail("traced"))
    (tmp_path / "a.onnx").mkdir()
    with pytest.raises(OutputError, match="no ordinary file"):
        export(run, out=tmp_path / "a.onnx")


def test_a_dataset_that_is_here_but_wrong_is_not_taken_for_absent(tmp_path: Path) -> None:
    """Else int8 would not be judged, and nobody would know why."""
    recipe = load_trained(tiny_run(tmp_path, "reconet", "data.options.trees=1")).info.recipe
    with pytest.raises(ReconetError, match="trees"):
        of_recipe(recipe, "val", None, 4)
    make_tree("camvid", tmp_path / "camvid")
    wrong = ["data.name=camvid", f"data.root={tmp_path / 'camvid'}", "data.options.trees=1"]
    damaged = apply_overrides(find_recipe("scenes/tiny"), wrong)
    with pytest.raises(ReconetError, match=r"data\.options"):
        of_recipe(damaged, "val", None, 4)


@pytest.mark.parametrize("root", [None, "/no/such/place"])
def test_where_the_dataset_is_not_here_images_are_generated(
    root: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECONET_DATA", raising=False)
    recipe = find_recipe("voc12/reconet_r50")
    data = recipe.data.model_copy(update={"root": root and Path(root), "crop": (64, 64)})
    elsewhere = recipe.model_copy(update={"data": data})
    found = of_recipe(elsewhere, "val", None, 2)
    assert found.source == "2 generated images (voc12 is not here)"
    with pytest.raises(AbsentError):
        of_recipe(elsewhere, "val", Path("/no/such/place"), 2)


@pytest.mark.parametrize("size", [(5, 7), (8, 8), (13, 3)])
@pytest.mark.parametrize("bins", [1, 2, 3, 6])
def test_pooling_as_products_is_adaptive_pooling(size: tuple[int, int], bins: int) -> None:
    x_bchw = torch.randn(2, 3, *size)
    torch.testing.assert_close(pooled(x_bchw, bins), F.adaptive_avg_pool2d(x_bchw, bins))


def test_a_context_that_a_format_cannot_express_says_why(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="dmnet cannot be written as onnx: each image has"):
        export(tiny_run(tmp_path, "dmnet"), format="onnx")


def test_int8_is_scored_and_says_how_it_was_made(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "photos"
    for number in range(2):
        label_hw = random_image(40, 70).numpy() // (number + 1)
        write_index(folder / f"{number}.png", label_hw, tuple((i, i // 2, 9) for i in range(256)))
    (folder / "broken.png").write_text("no image")
    out = tmp_path / "net.xml"
    arguments = ["--format=openvino", "--int8", "--calibrate", str(folder), "--out", str(out)]
    code = main(["export", str(run), *arguments, "--score-on=3", "--max-loss=100", "--json"])
    assert code == 0
    printed = capsys.readouterr()
    assert "left out" in printed.err
    assert "broken.png" in printed.err
    said = json.loads(printed.out)
    assert said["images"] == "3 images of scenes val"
    assert said["bytes"] == out.stat().st_size + out.with_suffix(".bin").stat().st_size
    assert said["scored_on"] == "3 images of scenes val"
    assert said["calibrated_on"] == f"2 images of {folder}"
    (first,) = said["tries"]
    assert first["kept"] == []
    info = open_file(out).info
    assert info.precision == "int8"
    assert info.int8["after"] == pytest.approx(first["after"])
    assert "i8" in out.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", FORMATS)
def test_every_context_exports_at_any_size(tmp_path: Path, context: str, name: str) -> None:
    if name != "torch" and context in NOT_IN_ONNX:
        pytest.skip(NOT_IN_ONNX[context])
    result = export(tiny_run(tmp_path, context), format=name)
    assert all(one.fine for one in result.differences)
