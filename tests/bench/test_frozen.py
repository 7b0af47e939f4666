import pytest

from reconet.bench.frozen import BUILD, BUILD_BF16, CACHED, FULL, bench_frozen, summarise


def test_both_trainings_and_the_cache_are_measured() -> None:
    result = bench_frozen(backbone="resnet18", size=64, batch=2, steps=2, project=8, device="cpu")
    assert result.over_full > 0
    assert min(result.cached_images_per_second, result.full_images_per_second) > 0
    assert result.cache_bytes_per_image == 8 * 4 * 4 * 2 + 64 * 64  # c4 in fp16, and the labels
    assert result.build_seconds_per_image > 0
    assert result.build_in_bf16 > 0


def test_the_ratio_is_taken_within_a_round_and_the_break_even_counts_all_builders() -> None:
    times = {FULL: [8.0, 80.0, 8.0], CACHED: [2.0, 20.0, 1.0], BUILD: [3.0, 3.0, 3.0]}
    times[BUILD_BF16] = [1.5, 1.0, 1.5]
    result = summarise(times, batch=2, builders=3, entry_bytes=10)
    assert result.over_full == 4.0
    assert result.full_images_per_second == 2 / 8
    assert result.build_seconds_per_image == 1.0
    assert result.build_in_bf16 == 2.0
    # An epoch takes 4 s per image without and 1 s with the cache, which took 1 s to build.
    assert result.break_even_epochs == pytest.approx(1 / 3)


def test_a_cache_that_wins_nothing_never_pays() -> None:
    times = {FULL: [1.0], CACHED: [1.0], BUILD: [1.0], BUILD_BF16: [1.0]}
    assert summarise(times, batch=1, builders=1, entry_bytes=1).break_even_epochs is None
