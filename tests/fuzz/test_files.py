"""Damaged files and what strangers send are used, or refused in one line, and leave nothing.

The slow tests try 700 damaged files of each kind, and thousands of runs and graphs.
"""

import subprocess
import sys

import pytest

from tests.fuzz.child import KINDS
from tests.fuzz.hostile import HOSTILE_KINDS
from tests.launch import ENVIRONMENT

FAST, SLOW = 6, 700  # of each of 33 kinds
TIMEOUT = 1500  # seconds: only a hang takes so long, also on a busy machine
PART = 120  # cases of a hostile kind in one process
PARTS = {"run": 8, "graph": 8}


def fuzz(kinds: list[str], seed: int, count: int, first: int = 0) -> None:
    numbers = [str(seed), str(count), str(first)]
    words = [sys.executable, "-m", "tests.fuzz.child", ",".join(kinds), *numbers]
    done = subprocess.run(
        words,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        errors="replace",  # C libraries quote the damaged bytes
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, f"the reader itself died: {done.returncode} {done.stderr[-2000:]}"
    findings = [line for line in done.stdout.splitlines() if not line.startswith("done")]
    assert not findings, "\n".join(findings)
    assert done.stdout.count("done") == len(kinds)


def test_damaged_files_of_every_kind_are_read_or_refused_in_one_line() -> None:
    fuzz(list(KINDS), seed=0, count=FAST)


def test_what_strangers_send_is_used_or_refused_in_one_line_and_leaves_nothing() -> None:
    fuzz(list(HOSTILE_KINDS), seed=0, count=FAST)


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("kind", KINDS)
def test_many_damaged_files_are_read_or_refused_in_one_line(kind: str) -> None:
    fuzz([kind], seed=1, count=SLOW)


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize(
    ("kind", "part"), [(kind, part) for kind in HOSTILE_KINDS for part in range(PARTS[kind])]
)
def test_much_that_strangers_send_is_used_or_refused_in_one_line(kind: str, part: int) -> None:
    fuzz([kind], seed=1, count=PART, first=part * PART)
