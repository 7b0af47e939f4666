"""Damaged files of every kind are read, or refused in one line. The slow tests try 700 of each."""

import subprocess
import sys

import pytest

from tests.fuzz.child import KINDS
from tests.launch import ENVIRONMENT

FAST, SLOW = 12, 700  # of each of 26 kinds


def fuzz(kinds: list[str], seed: int, count: int) -> None:
    words = [sys.executable, "-m", "tests.fuzz.child", ",".join(kinds), str(seed), str(count)]
    done = subprocess.run(
        words,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        errors="replace",  # C libraries quote the damaged bytes
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, f"the reader itself died: {done.returncode} {done.stderr[-2000:]}"
    findings = [line for line in done.stdout.splitlines() if not line.startswith("done")]
    assert not findings, "\n".join(findings)
    assert done.stdout.count("done") == len(kinds)


def test_damaged_files_of_every_kind_are_read_or_refused_in_one_line() -> None:
    fuzz(list(KINDS), seed=0, count=FAST)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_damaged_files_are_read_or_refused_in_one_line(kind: str) -> None:
    fuzz([kind], seed=1, count=SLOW)
