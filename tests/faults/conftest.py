"""One process that runs commands and lets them die (see zygote.py)."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.engine.launch import ENVIRONMENT, command

KILLED = -9


class Result(NamedTuple):
    code: int
    said: str
    seconds: float


class Zygote:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote"],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        arguments: list[str],
        fault: tuple[str, int] | None = None,
        kill_after: float | None = None,
    ) -> Result:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        order = {"arguments": arguments, "fault": fault, "kill_after": kill_after}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return Result(**json.loads(self.process.stdout.readline()))


Straight = tuple[Path, Result]


SHORT = [
    "--set=train.steps=6",
    "--set=train.save_every=2",
    "--set=train.eval_every=3",
    "--set=data.options.val=2",
]


def arguments(directory: Path, *more: str) -> list[str]:
    return command(directory, "--resume", *SHORT, *more)[1:]


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    one = Zygote()
    yield one
    one.process.communicate()


@pytest.fixture(scope="session")
def straight(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Straight:
    """A run that nobody disturbs."""
    directory = tmp_path_factory.mktemp("straight") / "run"
    result = zygote.run(arguments(directory))
    assert result.code == 0, result.said
    return directory, result
