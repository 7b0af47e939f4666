"""The tests of the core mathematics can fail: they catch every known mistake."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch import ENVIRONMENT
from tests.mutants import MUTATIONS, NO_MISTAKE

ROOT = Path(__file__).parent.parent
A_TEST_FAILED = 1  # pytest's exit code; 2 and above would be an error of our own
FAST = ["rows and columns swapped", "wrong ignore"]


def caught(names: list[str]) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants", *names],
        env=ENVIRONMENT,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.rpartition(" ") for line in done.stdout.splitlines()]
    return {name: int(code) for name, _, code in lines}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_fits_the_code(name: str) -> None:
    mutation = MUTATIONS[name]
    text = (ROOT / "reconet" / mutation.file).read_text()
    assert text.count(mutation.old) == 1
    assert (ROOT / "tests" / mutation.test.split("::")[0]).is_file()


def test_swapped_axes_and_a_wrong_ignore_are_caught_and_a_plain_copy_is_not() -> None:
    assert caught([*FAST, NO_MISTAKE]) == {**dict.fromkeys(FAST, A_TEST_FAILED), NO_MISTAKE: 0}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MUTATIONS if name not in (*FAST, NO_MISTAKE)])
def test_every_mutation_is_caught(name: str) -> None:
    assert caught([name]) == {name: A_TEST_FAILED}
