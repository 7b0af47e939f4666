"""Make a run, and a measurement that always keeps the same file."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reconet.export.formats import FORMATS
from reconet.export.graph import export_info, trace
from reconet.fast.store import keep
from reconet.inference.fast import FastChoice
from reconet.inference.fast import find as find_module
from reconet.models.trained import load_trained
from reconet.system.progress import Progress
from reconet.system.user_cache import ROOT_VARIABLE
from tests.factories import tiny_network, tiny_recipe, write_run

NETWORK = tiny_recipe("data.crop=32", "data.base_size=48")


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run and its ONNX file. Tests copy neither: they hand the file to a fake process."""
    run = write_run(tmp_path_factory.mktemp("run"), tiny_network(NETWORK, decided=True), log=True)
    trained = load_trained(run)
    FORMATS["onnx"].write(trace(trained.model), export_info(trained), run / "model.onnx")
    return run / "model.onnx"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path / "cache"))
    return write_run(tmp_path / "run", tiny_network(NETWORK, decided=True), log=True)


@pytest.fixture
def jobs(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replace the measurement by one that always keeps the ONNX file, and count its calls."""
    seen: list[dict[str, Any]] = []

    def measure(arguments: Sequence[str], progress: Progress) -> None:
        job = json.loads(arguments[-1])
        seen.append(job)
        staged = tmp_path / f"staged{len(seen)}"
        staged.mkdir()
        (staged / "onnx.onnx").write_bytes(exported.read_bytes())
        choice = FastChoice(
            way="exported",
            text="ONNX Runtime fp32, 2.00 times as fast",
            machine=job["machine"],
            smallest=17,
            had_images=bool(job["images"] or job["data"]),
        )
        keep(choice, staged / "onnx.onnx", Path(job["folders"][0]))

    monkeypatch.setattr(find_module, "_run", measure)
    return seen
