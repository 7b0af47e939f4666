from reconet.prune.measure import time_ratios


def test_times_are_ratios_to_the_first() -> None:
    ratios = time_ratios({"one": lambda: sum(range(10)), "two": lambda: sum(range(100_000))}, 5)
    assert ratios["one"] == (1.0, (1.0, 1.0))
    assert ratios["two"].median > 1.0
    low, high = ratios["two"].range
    assert low <= ratios["two"].median <= high
