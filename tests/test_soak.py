"""A short soak does all its tasks, and notices what a long one is for."""

import json
import subprocess
import sys

import pytest

from tests.launch import ENVIRONMENT
from tests.soak import GROWTH_BYTES, Tally, check_growth


@pytest.mark.parametrize(
    ("last", "files", "right"),
    [(GROWTH_BYTES // 2, 20, True), (2 * GROWTH_BYTES, 20, False), (0, 60, False)],
)
def test_memory_and_open_files_that_grow_are_wrong(last: int, files: int, right: bool) -> None:
    tally = Tally()
    check_growth([5, 3, 0, last], [20, 20, 20, files], tally)
    assert (not tally.problems) == right


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_short_soak_kills_compares_and_finds_nothing_wrong() -> None:
    words = [sys.executable, "-m", "tests.soak", "--minutes=0.2"]
    done = subprocess.run(
        words, env=ENVIRONMENT, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = json.loads(done.stdout)["counts"]
    assert counts["trainings finished and compared"] >= 1
    assert counts["predictions finished and compared"] >= 1
    assert counts["requests: good"] >= 1
