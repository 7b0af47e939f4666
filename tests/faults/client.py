"""Run commands in the fork server, and look at what they leave."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from reconet.engine import read_log, run_weights
from reconet.models import load_trained
from reconet.recipes import read_recipe
from tests.launch import ENVIRONMENT, command

KILLED = -9
SHORT = [
    "--set=train.steps=6",
    "--set=train.save_every=2",
    "--set=train.eval_every=3",
    "--set=data.options.val=2",
]


class Result(NamedTuple):
    """How a command ended."""

    code: int
    output: str
    seconds: float


class ForkServer:
    """A process that runs commands in children, some of which die (see fork_server.py)."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.fork_server"],
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


class UndisturbedRun(NamedTuple):
    """A run without a fault, to compare others with."""

    directory: Path
    seconds: float


def arguments(directory: Path, *more: str) -> list[str]:
    return command(directory, "--resume", *SHORT, *more)[1:]


def assert_readable(directory: Path) -> None:
    """Read every file of a run that is there to its end."""
    for name, read in {
        "recipe.json": read_recipe,
        "last.pt": run_weights,
        "best.safetensors": load_trained,
    }.items():
        if (directory / name).exists():
            read(directory / name)
    read_log(directory)
