"""The benchmarks of benchmarks/ measure what they say."""

from typing import Any

import pytest
import torch

from benchmarks.all import MODULE, measure, section, stale_rows
from benchmarks.evaluate import bench_evaluate, plain_labels
from benchmarks.frozen import BUILD, BUILD_BF16, CACHED, FULL, bench_frozen, summarise
from reconet import Protocol
from reconet.inference import predict_labels


def smooth(image_bchw: torch.Tensor) -> torch.Tensor:
    colour_bchw = torch.nn.functional.avg_pool2d(image_bchw.float() / 32, 9, 1, padding=4)
    return torch.cat([colour_bchw, 8 - colour_bchw], 1)


@pytest.mark.parametrize("size", [(40, 56), (61, 29), (1, 9)])
def test_the_plain_loop_and_ours_say_the_same(size: tuple[int, int]) -> None:
    large_hwc = (torch.rand(8, 8, 3) * 255).repeat_interleave(8, 0).repeat_interleave(8, 1).byte()
    image_hwc = large_hwc[: size[0], : size[1]]
    protocol = Protocol(base_size=63, crop=(33, 41), scales=(0.75, 1.0, 1.75), flip=True, batch=4)
    plain_hw = plain_labels(smooth, image_hwc, protocol, 6)
    ours_hw = predict_labels(smooth, image_hwc, protocol, 6)
    assert (plain_hw == ours_hw).float().mean() > 0.97


def test_both_ways_to_evaluate_get_the_same_score() -> None:
    (result,) = bench_evaluate(
        classes=(14,), width=0.25, crop=64, size=(48, 64), images=1, rounds=1
    )
    assert result.speedup == pytest.approx(result.plain_seconds / result.seconds)  # of one round
    assert abs(result.miou - result.plain_miou) < 0.5  # of one small image
    assert result.same_pixels > 0.97
    assert result.miou > 3  # it did learn something


@pytest.mark.slow
def test_scores_are_equal_to_a_tenth_and_batches_are_no_slower() -> None:
    for result in bench_evaluate():
        assert abs(result.miou - result.plain_miou) < 0.1
        assert result.speedup > 1


def test_both_trainings_and_the_cache_are_measured() -> None:
    result = bench_frozen(backbone="resnet18", size=64, batch=2, steps=2, project=8, device="cpu")
    assert min(result.cached_images_per_second, result.full_images_per_second) > 0
    assert result.cache_bytes_per_image == 8 * 4 * 4 * 2 + 64 * 64  # c4 in fp16, and the labels
    times = {FULL: [8.0, 80.0, 8.0], CACHED: [2.0, 20.0, 1.0], BUILD: [3.0, 3.0, 3.0]}
    times[BUILD_BF16] = [1.5, 1.0, 1.5]
    result = summarise(times, batch=2, builders=3, entry_bytes=10)
    assert result.over_full == 4.0  # the ratio is taken within a round
    assert result.build_seconds_per_image == 1.0
    # An epoch takes 4 s per image without and 1 s with the cache, which took 1 s to build.
    assert result.break_even_epochs == pytest.approx(1 / 3)


def printed(command: str) -> dict[str, Any]:
    """Return what every command of the figures prints, in one."""
    ways = [("eager fp32", 1.0), ("OpenVINO int8", 5.0), ("bf16", None)]
    return {
        "forward_speedup": 14.23,
        "forward_backward_speedup": 13.0,
        "pipelines": [
            {"name": name, "workers": workers, "over_pillow": 3.0 + workers}
            for name in ("pillow", "reconet")
            for workers in (1, 2)
        ],
        "ways": [{"way": way, "over_eager": ratio} for way, ratio in ways],
        "networks": [{"speedup": 1.5}],
        "over_full": 70.0,
    }


def test_the_smallest_run_of_each_figure_is_quoted() -> None:
    asked: list[str] = []

    def slower_at_second(command: str) -> dict[str, Any]:
        asked.append(command)
        values = printed(command)
        return values | {"over_full": values["over_full"] / asked.count(command)}

    measured = measure(2, slower_at_second)
    assert asked.count(MODULE) == 2  # once a run, for both of its figures
    text = section({"torch": "2.9"}, 2, measured)
    assert "**35.00** | 70.00, 35.00 |" in text
    assert text.count("| not here |  |") == 5  # ways that cannot run
    rows = [
        "| The core is 14.2 times faster. | `reconet bench module --context reconet` |",
        "| The core is 15.6 times faster. | `reconet bench module --context reconet` |",
        "| It costs 71 times less. | `reconet cost --paper` |",
    ]
    assert stale_rows("\n".join(rows), measured) == ["The core is 15.6 times faster."]
