"""What a training keeps of its best validation, and what a report does without it."""

import json
from pathlib import Path

import pytest
import torch

from reconet.cli import main
from reconet.engine import read_log
from reconet.evaluation import best_evaluation, best_images, kept_validation
from reconet.models.trained import load_trained, save_trained
from reconet.system.distributed import Processes
from reconet.system.run_files import BEST, VALIDATION
from tests.launch import TINY_NETWORK

CPU = torch.device("cpu")
PROCESSES = Processes.single(CPU)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    assert main(["train", "scenes/tiny", f"--out={path}", *TINY_NETWORK]) == 0
    return path


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test fail where a network is loaded."""
    monkeypatch.setattr(kept_validation, "load_trained", lambda path: pytest.fail("loaded"))


def test_what_is_kept_is_what_the_best_network_computes(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / VALIDATION).rename(run / "aside")
    computed = best_evaluation(run, PROCESSES)
    images = best_images(run, CPU, 3)
    (run / "aside").rename(run / VALIDATION)
    forbid(monkeypatch)
    kept = best_evaluation(run, PROCESSES)
    assert kept.as_dict() == computed.as_dict()
    assert kept.count_kk.equal(computed.count_kk)
    assert best_images(run, CPU, 3) == images
    best = max((line for line in read_log(run) if line["kind"] == "val"), key=lambda x: x["miou"])
    assert kept.figures["miou"] == best["miou"]


def test_a_report_needs_neither_network_nor_dataset(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid(monkeypatch)
    monkeypatch.setattr(kept_validation, "open_split", lambda *_: pytest.fail("opened"))
    assert main(["report", str(run)]) == 0
    text = (run / "report.html").read_text()
    assert "errors in red" in text
    assert "Confusion" in text


def test_what_was_kept_of_another_network_or_is_damaged_is_not_used(run: Path) -> None:
    kept = json.loads((run / VALIDATION).read_text())
    expected = best_evaluation(run, PROCESSES).figures
    classes = len(kept["counts"])
    for spoilt in (
        "{",
        json.dumps(kept | {"step": kept["step"] + 1}),
        json.dumps(kept | {"counts": [[10**30] * classes] * classes}),
        json.dumps(kept | {"counts": [[1] * classes]}),
        json.dumps(kept | {"counts": [[-1] * classes] * classes}),
    ):
        (run / VALIDATION).write_text(spoilt)
        assert best_evaluation(run, PROCESSES).figures == expected
    (run / VALIDATION).write_text(json.dumps(kept))
    trained = load_trained(run)
    with torch.no_grad():
        trained.model.classify.weight.neg_()
    trained.info.score["miou"] = 0.123
    save_trained(run / BEST, trained)
    assert best_evaluation(run, PROCESSES).figures != expected
