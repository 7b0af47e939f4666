import pytest

import reconet.bench.train
from reconet.bench.train import MODES, bench_train


@pytest.mark.slow
def test_all_ways_learn_alike_on_the_same_images() -> None:
    fp32, *others = bench_train(backbone="resnet18", size=64, batch=2, steps=4, device="cpu")
    assert (fp32.name, fp32.over_fp32) == ("fp32", 1.0)
    for other in others:
        assert other.seconds_per_step > 0
        assert len(fp32.losses) == len(other.losses) == 5
        for one, loss in zip(fp32.losses, other.losses, strict=True):
            assert abs(one - loss) < 0.1 * one


def test_the_gain_is_the_median_over_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take ratios within a step. Two medians may come from different moments of a busy machine."""
    times = {name: [2.0, 1.0, 3.0] for name in MODES} | {"fp32": [1.0, 10.0, 3.0]}
    monkeypatch.setattr(reconet.bench.train, "time_in_turns", lambda calls, rounds: times)
    results = bench_train(backbone="resnet18", size=64, batch=2, steps=3, device="cpu")
    assert [result.over_fp32 for result in results] == [1.0] * len(MODES)
