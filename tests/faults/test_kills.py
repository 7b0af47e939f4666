"""SIGKILL at any moment: nothing is lost, and nothing half-written is accepted."""

from pathlib import Path

import numpy as np
import pytest

from reconet.engine.checkpoint import run_weights
from reconet.engine.rundir import read_log
from reconet.models.trained import load_trained
from reconet.recipes.storage import read_recipe
from tests.engine.launch import assert_same_run
from tests.faults.conftest import KILLED, Straight, Zygote, arguments


def assert_whole(directory: Path) -> None:
    """Whatever has its final name can be read to its end."""
    for name, read in {
        "recipe.json": read_recipe,
        "last.pt": run_weights,
        "best.safetensors": load_trained,
    }.items():
        if (directory / name).exists():
            read(directory / name)
    read_log(directory)


def finish(zygote: Zygote, directory: Path, straight: Path) -> None:
    result = zygote.run(arguments(directory))
    assert result.code == 0, result.said
    assert_same_run(straight, directory)
    assert not list(directory.glob("*.part"))
    assert not list(directory.glob(".*.part")), "what a killed writer left is cleared away"


def kill_at_random(zygote: Zygote, straight: Straight, folder: Path, kills: int) -> None:
    """A run is killed at any moment until it is done; then the next one is."""
    rng = np.random.default_rng(kills)
    runs = [folder / "0"]
    hits = 0
    while hits < kills:
        moment = float(rng.uniform(0, 1.1 * straight[1].seconds))
        result = zygote.run(arguments(runs[-1]), kill_after=moment)
        if result.code == KILLED:
            hits += 1
            assert_whole(runs[-1])
        else:
            assert result.code == 0, result.said
            assert_same_run(straight[0], runs[-1])
            runs.append(folder / str(len(runs)))
    finish(zygote, runs[-1], straight[0])


def test_five_kills_at_random_moments(zygote: Zygote, straight: Straight, tmp_path: Path) -> None:
    kill_at_random(zygote, straight, tmp_path, 5)


@pytest.mark.slow
def test_fifty_kills_at_random_moments(zygote: Zygote, straight: Straight, tmp_path: Path) -> None:
    kill_at_random(zygote, straight, tmp_path, 50)


# The files of a run in the order in which they are written: recipe.json, log.jsonl, then last.pt
# every second step and best.safetensors at a validation that is better than those before it.
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
    zygote: Zygote, straight: Straight, tmp_path: Path, stage: str, number: int
) -> None:
    directory = tmp_path / "run"
    result = zygote.run(arguments(directory), fault=(stage, number))
    if result.code == 0:
        assert number > 5, "a run writes more files than that"
    else:
        assert result.code == KILLED, result.said
    assert_whole(directory)
    finish(zygote, directory, straight[0])
