"""Both ways to evaluate agree. How fast this machine is does not matter here."""

import json

import pytest
import torch

from reconet.bench.evaluate import bench_evaluate, plain_labels
from reconet.cli import main
from reconet.evaluation.metrics import confusion_matrix, scores
from reconet.inference.protocol import Protocol
from reconet.inference.windows import Forward, predict_labels


def smooth(image_bchw: torch.Tensor) -> torch.Tensor:
    colour_bchw = torch.nn.functional.avg_pool2d(image_bchw.float() / 32, 9, 1, padding=4)
    return torch.cat([colour_bchw, 8 - colour_bchw], 1)


def test_the_plain_loop_and_ours_say_the_same() -> None:
    image_hwc = (torch.rand(5, 7, 3) * 255).repeat_interleave(8, 0).repeat_interleave(8, 1).byte()
    protocol = Protocol(base_size=64, crop=(48, 32), scales=(0.75, 1.0, 1.5), flip=True)
    plain_hw = plain_labels(smooth, image_hwc, protocol, 6)
    ours_hw = predict_labels(smooth, image_hwc, protocol, 6)
    assert (plain_hw == ours_hw).float().mean() > 0.97


def many_classes(image_bchw: torch.Tensor) -> torch.Tensor:
    weight_kc = torch.randn(150, 6, generator=torch.Generator().manual_seed(0))
    return torch.einsum("kc,bchw->bkhw", weight_kc, smooth(image_bchw))


@pytest.mark.parametrize(("forward", "classes"), [(smooth, 6), (many_classes, 150)])
@pytest.mark.parametrize("size", [(37, 53), (61, 29), (1, 9)])
@pytest.mark.parametrize("batch", [1, 4])
def test_odd_sizes_single_windows_and_many_classes_get_the_same_score(
    forward: Forward, classes: int, size: tuple[int, int], batch: int
) -> None:
    torch.manual_seed(0)
    blocks_hwc = torch.rand(8, 8, 3) * 255
    large_hwc = blocks_hwc.repeat_interleave(8, 0).repeat_interleave(8, 1).byte()
    image_hwc = large_hwc[: size[0], : size[1]]
    protocol = Protocol(
        base_size=63, crop=(33, 41), scales=(0.75, 1.0, 1.75), flip=True, batch=batch
    )
    plain_hw = plain_labels(forward, image_hwc, protocol, classes)
    ours_hw = predict_labels(forward, image_hwc, protocol, classes)
    truth_hw = plain_labels(forward, image_hwc, Protocol(base_size=63, crop=(65, 65)), classes)
    accuracies = [
        scores(confusion_matrix(truth_hw, predicted_hw, classes)).pixel_accuracy
        for predicted_hw in (plain_hw, ours_hw)
    ]
    assert (plain_hw == ours_hw).float().mean() > 0.97
    assert abs(accuracies[0] - accuracies[1]) < 0.02


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
