"""Both ways to evaluate agree. How fast this machine is does not matter here."""

import json

import pytest
import torch

from reconet.bench.evaluate import bench_evaluate, plain_labels
from reconet.cli import main
from reconet.inference.protocol import Protocol
from reconet.inference.windows import predict_labels


def smooth(image_bchw: torch.Tensor) -> torch.Tensor:
    colour_bchw = torch.nn.functional.avg_pool2d(image_bchw.float() / 32, 9, 1, padding=4)
    return torch.cat([colour_bchw, 8 - colour_bchw], 1)


def test_the_plain_loop_and_ours_say_the_same() -> None:
    image_hwc = (torch.rand(5, 7, 3) * 255).repeat_interleave(8, 0).repeat_interleave(8, 1).byte()
    protocol = Protocol(base_size=64, crop=(48, 32), scales=(0.75, 1.0, 1.5), flip=True)
    plain_hw = plain_labels(smooth, image_hwc, protocol, 6)
    ours_hw = predict_labels(smooth, image_hwc, protocol, 6)
    assert (plain_hw == ours_hw).float().mean() > 0.97


def test_both_ways_get_the_same_score() -> None:
    (result,) = bench_evaluate(
        classes=(14,), width=0.25, crop=64, size=(48, 64), images=1, rounds=1
    )
    assert result.classes == 14
    assert result.seconds > 0
    assert result.speedup == pytest.approx(result.plain_seconds / result.seconds)  # of one round
    assert 0 < result.network_share < 1
    assert abs(result.miou - result.plain_miou) < 0.5  # of one small image
    assert result.same_pixels > 0.97
    assert result.miou > 3  # it did learn something


def test_the_verb_prints_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"width": 0.25, "crop": 32, "size": (24, 32), "images": 1, "rounds": 1}
    results = bench_evaluate(classes=(14,), **small)  # type: ignore[arg-type]
    monkeypatch.setattr("reconet.bench.evaluate.bench_evaluate", lambda **_: results)
    assert main(["bench", "evaluate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["networks"][0]["classes"] == 14
    assert main(["bench", "evaluate"]) == 0
    assert "faster" in capsys.readouterr().out


@pytest.mark.slow
def test_scores_are_equal_to_a_tenth_and_batches_are_no_slower() -> None:
    for result in bench_evaluate():
        assert abs(result.miou - result.plain_miou) < 0.1
        assert result.speedup > 1
