"""Kill a training at any moment: nothing is lost, and no half-written file is accepted."""

from pathlib import Path

import numpy as np
import pytest

from tests.faults.client import KILLED, ForkServer, UndisturbedRun, arguments, assert_readable
from tests.launch import assert_same_run


def finish(server: ForkServer, directory: Path, undisturbed: UndisturbedRun) -> None:
    result = server.run(arguments(directory))
    assert result.code == 0, result.output
    assert_same_run(undisturbed.directory, directory)
    assert not list(directory.glob("*.part"))
    assert not list(directory.glob(".*.part")), "files of killed writers are removed"


def kill_at_random(
    server: ForkServer, undisturbed: UndisturbedRun, folder: Path, kills: int
) -> None:
    """Kill a run at any moment until it is done, then the next one."""
    rng = np.random.default_rng(kills)
    runs = [folder / "0"]
    hits = 0
    while hits < kills:
        moment = float(rng.uniform(0, 1.1 * undisturbed.seconds))
        result = server.run(arguments(runs[-1]), kill_after=moment)
        if result.code == KILLED:
            hits += 1
            assert_readable(runs[-1])
        else:
            assert result.code == 0, result.output
            assert_same_run(undisturbed.directory, runs[-1])
            runs.append(folder / str(len(runs)))
    finish(server, runs[-1], undisturbed)


def test_five_kills_at_random_moments(
    server: ForkServer, undisturbed: UndisturbedRun, tmp_path: Path
) -> None:
    kill_at_random(server, undisturbed, tmp_path, 5)


@pytest.mark.slow
def test_fifty_kills_at_random_moments(
    server: ForkServer, undisturbed: UndisturbedRun, tmp_path: Path
) -> None:
    kill_at_random(server, undisturbed, tmp_path, 50)


# The files of a run in the order in which they are written: recipe.json, last.pt of step 0, then
# last.pt every second step and best.safetensors at a validation that is better than those before.
STAGES = ("write", "fsync", "replace", "replaced")
WRITES = 8
FAST = {("replace", 3), ("write", 5)}


@pytest.mark.parametrize(
    ("stage", "number"),
    [
        pytest.param(stage, number, marks=[] if (stage, number) in FAST else pytest.mark.slow)
        for stage in STAGES
        for number in range(1, WRITES + 1)
    ],
)
def test_a_kill_while_a_file_is_written(
    server: ForkServer, undisturbed: UndisturbedRun, tmp_path: Path, stage: str, number: int
) -> None:
    directory = tmp_path / "run"
    result = server.run(arguments(directory), fault=(stage, number))
    if result.code == 0:
        assert number > 5, "a run writes more files than that"
    else:
        assert result.code == KILLED, result.output
    assert_readable(directory)
    finish(server, directory, undisturbed)
