import pytest

import reconet.bench.train
from reconet.bench.train import MODES, bench_train


def test_the_gain_is_the_median_over_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take ratios within a step. Two medians may come from different moments of a busy machine."""
    times = {name: [2.0, 1.0, 3.0] for name in MODES} | {"fp32": [1.0, 10.0, 3.0]}
    monkeypatch.setattr(reconet.bench.train, "time_in_turns", lambda calls, rounds: times)
    results = bench_train(backbone="resnet18", size=64, batch=2, steps=3, device="cpu")
    assert [result.over_fp32 for result in results] == [1.0] * len(MODES)
