import pytest

import reconet.bench.train
from reconet.bench.train import MODES, bench_train


@pytest.mark.slow
def test_both_precisions_learn_alike_on_the_same_images() -> None:
    fp32, bf16 = bench_train(backbone="resnet18", size=64, batch=2, steps=4, device="cpu")
    assert (fp32.name, fp32.over_fp32) == ("fp32", 1.0)
    assert bf16.seconds_per_step > 0
    assert len(fp32.losses) == len(bf16.losses) == 5
    for one, other in zip(fp32.losses, bf16.losses, strict=True):
        assert abs(one - other) < 0.1 * one


def test_the_gain_is_the_median_over_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take ratios within a step. Two medians may come from different moments of a busy machine."""
    times = dict(zip(MODES, ([1.0, 10.0, 3.0], [2.0, 1.0, 3.0]), strict=True))
    monkeypatch.setattr(reconet.bench.train, "time_in_turns", lambda calls, rounds: times)
    results = bench_train(backbone="resnet18", size=64, batch=2, steps=3, device="cpu")
    assert [result.over_fp32 for result in results] == [1.0, 1.0]
