"""Who is measured when, and what is compared with what."""

import time

import pytest

from reconet.system.readable import readable_seconds
from reconet.system.timing import ratios, time_in_turns


def test_calls_take_turns_and_the_first_round_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, order = 0.0, []

    def lasts(name: str, seconds: float) -> None:
        nonlocal now
        now += seconds * (10 if name not in order else 1)  # a cold start
        order.append(name)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    calls = {"quick": lambda: lasts("quick", 1.0), "slow": lambda: lasts("slow", 3.0)}
    assert time_in_turns(calls, 2) == {"quick": [1.0, 1.0], "slow": [3.0, 3.0]}
    assert order == ["quick", "slow"] * 3


def test_ratios_are_those_within_a_round() -> None:
    assert ratios([1.0, 8.0], [2.0, 4.0]) == [0.5, 2.0]


def test_times_are_readable() -> None:
    values = (0.4, 18, 119, 120, 7140, 7200, 90000)
    told = ["0 s", "18 s", "119 s", "2 min", "119 min", "2.0 h", "25.0 h"]
    assert [readable_seconds(value) for value in values] == told
