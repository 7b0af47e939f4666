"""Opening a network: at which precision, and by which file."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from reconet.errors import RecipeError
from reconet.inference import Network, Predictor, open_network
from reconet.inference import network as network_module
from reconet.inference.network import choose_faster, precision_of
from tests.factories import smooth_image

CPU = torch.device("cpu")
clock: list[float] = []


def fake(network: Network, how: str, seconds: float, shift: float) -> Network:
    """Return the same network, slower, with other labels at a fraction `shift` of the places."""
    clock.append(0.0)

    def forward(image_bchw: torch.Tensor) -> torch.Tensor:
        clock[-1] += seconds
        logits_bkij = network.forward(image_bchw)
        rows = round(shift * logits_bkij.shape[2])
        logits_bkij = logits_bkij.clone()
        logits_bkij[:, :, :rows] = -logits_bkij[:, :, :rows]
        return logits_bkij

    return replace(network, forward=forward, how=how)


@pytest.mark.parametrize(
    ("seconds", "shift", "chosen"),
    [(0.5, 0.0, "rough"), (0.95, 0.0, "exact"), (2.0, 0.0, "exact"), (0.5, 0.5, "exact")],
)
def test_another_precision_must_be_faster_and_agree(
    run: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, shift: float, chosen: str
) -> None:
    network = open_network(run, CPU)
    monkeypatch.setattr("reconet.inference.network.time.perf_counter", lambda: clock[-1])
    exact, rough = fake(network, "exact", 1.0, 0.0), fake(network, "rough", seconds, shift)
    assert choose_faster(exact, rough).how == chosen


def test_auto_is_fp32_where_the_cpu_has_no_bf16(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_module, "bf16_works", lambda: False)
    network = open_network(run, CPU, "auto")
    assert network.how == "torch fp32, batch norm folded, channels last"
    assert precision_of(network) == "fp32"


def test_bf16_can_be_asked_for_and_nearly_agrees(predictor: Predictor, run: Path) -> None:
    rough = Predictor.from_run(run, device="cpu", precision="bf16")
    assert rough.network.how.startswith("torch bf16")
    assert precision_of(rough.network) == "bf16"
    exact_hw, rough_hw = predictor(smooth_image(0)).label_hw, rough(smooth_image(0)).label_hw
    assert (exact_hw == rough_hw).mean() > 0.9


def test_an_exported_network_keeps_its_precision(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = tmp_path / "a.onnx"

    def opened(source: Path) -> Network:
        return replace(open_network(run, CPU), model=None, how="onnx")

    monkeypatch.setattr(network_module, "open_export", opened)
    assert open_network(exported, CPU, "auto").how == "onnx"
    with pytest.raises(RecipeError, match="exported"):
        open_network(exported, CPU, "fp32")
    with pytest.raises(RecipeError, match="Did you mean 'bf16'"):
        open_network(run, CPU, "bf15")


def test_a_prediction_imports_no_datasets_no_training_and_no_exports() -> None:
    code = "import sys, reconet.inference.video, reconet.inference.folder; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    loaded = set(done.stdout.split())
    for name in ("data.registry", "data.formats", "data.prelabels", "engine", "export", "study"):
        assert f"reconet.{name}" not in loaded
