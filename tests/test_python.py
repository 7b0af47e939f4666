"""Run the script of docs/python.md, and every command that takes what it wrote."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from PIL import Image as Pillow

import reconet
from reconet import BACKBONES, DATASETS, MODULES
from reconet.system import own_code
from tests.cli.run import run
from tests.factories import smooth_image
from tests.serve.launch import serving

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "python.md").read_text()
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def block_with(text: str) -> str:
    return next(block for block in BLOCKS if text in block)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the script as a user does, in a folder of its own."""
    folder = tmp_path_factory.mktemp("squares")
    (folder / "squares.py").write_text(block_with("class Squares"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "squares.py"], cwd=folder, env=environment, check=True)
    return folder


@pytest.fixture(autouse=True)
def _forget_own_code() -> Iterator[None]:
    """Undo what --import does to this process."""
    tables: list[dict[str, object]] = [MODULES, DATASETS, BACKBONES, own_code._imported]  # type: ignore[list-item]
    before, modules, paths = [dict(table) for table in tables], set(sys.modules), list(sys.path)
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)
    for name in {"squares", "small"} - modules:
        sys.modules.pop(name, None)
    sys.path[:] = paths


def test_the_script_has_at_most_30_lines() -> None:
    lines = [line for line in block_with("class Squares").splitlines() if line.strip()]
    assert len(lines) <= 30


def test_evaluate_and_export_take_the_network_with_import(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, own = str(folder / "squares.safetensors"), f"--import={folder / 'squares.py'}"
    code, out, err = run(capsys, "evaluate", network, own, "--device=cpu", "--json")
    assert code == 0, err
    scores = json.loads(out)
    assert (scores["dataset"], scores["images"]) == ("squares", 16)
    assert scores["figures"]["miou"] > 0.9
    graph = str(folder / "squares.onnx")
    assert run(capsys, "export", network, own, f"--out={graph}")[0] == 0
    code, out, _ = run(capsys, "evaluate", graph, "--device=cpu", "--json")
    assert json.loads(out)["figures"]["miou"] == pytest.approx(scores["figures"]["miou"], abs=1e-3)


def test_without_import_the_error_names_the_file_to_import(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "evaluate", str(folder / "squares.safetensors"))
    assert code == 2
    assert err.count("\n") == 1
    assert "unknown module 'tiny'" in err
    assert "was made with --import squares.py: add that." in err


def test_serve_takes_the_network_with_import(folder: Path) -> None:
    file = BytesIO()
    Pillow.fromarray(smooth_image(1)).save(file, "png")
    network, own = folder / "squares.safetensors", f"--import={folder / 'squares.py'}"
    with serving(network, own) as server:
        request = Request(
            f"{server.url}/api/segment", file.getvalue(), {"Content-Type": "image/png"}
        )
        answer = json.loads(urlopen(request, timeout=60).read())
    assert {one["name"] for one in answer["classes"]} == {"ground", "square"}


def test_the_backbone_of_the_docs_trains_and_is_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.py").write_text(block_with("class Small"))
    own, steps = f"--import={tmp_path / 'small.py'}", "--set=train.steps=2"
    size = ["--set=data.options.train=4", "--set=data.options.val=2", "--device=cpu"]
    arguments = ["train", "scenes/tiny", own, "--set=model.backbone=small", steps, *size]
    code, _, err = run(capsys, *arguments, f"--out={tmp_path / 'run'}")
    assert code == 0, err
    scores = reconet.evaluate(tmp_path / "run", device="cpu")
    assert scores is not None
    assert scores.images == 2
