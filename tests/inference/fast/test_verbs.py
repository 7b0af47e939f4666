"""--fast of the verbs: it reaches the network, and its labels are not mixed with those of fp32."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pillow

from reconet.cli import main
from reconet.inference.folder import predict as predict_module
from reconet.serve import open_server
from reconet.system.user_cache import FAST
from tests.factories import ProgressRecorder, smooth_image

Jobs = list[dict[str, Any]]
ONE_LINE = "fast: ONNX Runtime fp32, 2.00 times as fast"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(5):
        Pillow.fromarray(smooth_image(number)).save(folder / f"{number}.png")
    return folder


def test_predict_calibrates_by_the_images_at_hand(
    run: Path, jobs: Jobs, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(run), str(photos), "--fast", "--json", "--device=cpu"]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert result["how"] == "ONNX Runtime fp32"
    assert result["done"] == 5
    assert Path(result["out"]).name == "predictions-fast"
    assert [line for line in printed.err.splitlines() if line] == [
        f"{ONE_LINE}; kept in {run / FAST}"
    ]
    assert len(jobs[0]["images"]) == 5


def test_labels_of_fast_are_not_resumed_without_it(
    run: Path, jobs: Jobs, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["predict", str(run), str(photos), "--out", str(tmp_path / "out"), "--device=cpu"]
    assert main([*arguments, "--fast"]) == 0
    capsys.readouterr()
    assert main(arguments) == 2
    assert "of this network with other settings" in capsys.readouterr().err


def test_fast_and_precision_exclude_each_other(
    run: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(run), str(photos), "--fast", "--precision=bf16"]) == 2
    assert "leave out --precision" in capsys.readouterr().err


@pytest.mark.parametrize(("many", "notes"), [(5, 1), (6, 0)])
def test_fast_is_suggested_for_many_images(
    run: Path,
    photos: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    many: int,
    notes: int,
) -> None:
    monkeypatch.setattr(predict_module, "MANY_IMAGES", many)
    assert main(["predict", str(run), str(photos), "--json", "--device=cpu"]) == 0
    printed = capsys.readouterr()
    assert printed.err.count("--fast") == notes
    assert json.loads(printed.out)["how"].startswith("torch fp32")


def test_evaluate_gives_the_same_scores(
    run: Path, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", str(run), "--json", "--device=cpu", "--set=eval.mode=whole"]
    assert main(arguments) == 0
    plain = json.loads(capsys.readouterr().out)
    assert main([*arguments, "--fast"]) == 0
    printed = capsys.readouterr()
    fast = json.loads(printed.out)
    assert ONE_LINE in printed.err
    assert fast["figures"] == pytest.approx(plain["figures"], abs=1e-3)
    assert {key: fast[key] for key in ("dataset", "split", "protocol", "in_training")} == {
        key: plain[key] for key in ("dataset", "split", "protocol", "in_training")
    }


def test_a_server_runs_fast(run: Path, jobs: Jobs) -> None:
    pytest.importorskip("uvicorn")
    recorder = ProgressRecorder()
    server = open_server(run, port=0, device="cpu", fast=True, progress=recorder)
    server.listener.close()
    assert recorder.lines == [f"{ONE_LINE}; kept in {run / FAST}"]


def test_several_processes_do_not_evaluate_fast(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["evaluate", str(run), "--fast"]) == 2
    assert capsys.readouterr().err == (
        "reconet: --fast is for one process: leave out torchrun, or --fast.\n"
    )
