"""A run that was killed again and again, and resumed, ends in the same bits."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from reconet.engine import read_starts
from tests.launch import (
    assert_same_run,
    command,
    finish,
    kill_when,
    last,
    reached,
    run,
    start,
)

VARIANTS = {
    "plain": [],
    "workers": ["--set=data.workers=1"],
    "accumulation": ["--set=train.micro_batch=3", "--set=train.ema=0.9"],
}


@pytest.mark.parametrize(
    "variant",
    [
        "accumulation",
        pytest.param("plain", marks=pytest.mark.slow),
        pytest.param("workers", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_was_killed_at_random_ends_in_the_same_bits(
    tmp_path: Path, variant: str
) -> None:
    more = VARIANTS[variant]
    run(command(tmp_path / "straight", *more))
    killed = tmp_path / "killed"
    rng = np.random.default_rng(len(variant))
    for step in sorted(rng.choice(range(2, 12, 2), 2, replace=False)):
        process = start(command(killed, *more, "--resume"))
        kill_when(process, killed, int(step))
    run(command(killed, *more, "--resume"))
    assert_same_run(tmp_path / "straight", killed)
    starts = read_starts(killed)
    assert [start["step"] for start in starts] == sorted(start["step"] for start in starts)
    assert len(starts) == 3
    assert all(start["processes"] == 1 and start["torch"] for start in starts)


def test_two_processes_that_were_killed_end_in_the_same_bits(tmp_path: Path) -> None:
    run(command(tmp_path / "straight"), processes=2)
    process = start(command(tmp_path / "killed", "--resume"), processes=2)
    kill_when(process, tmp_path / "killed", 8)
    run(command(tmp_path / "killed", "--resume"), processes=2)
    assert_same_run(tmp_path / "straight", tmp_path / "killed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_step_and_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    more = ["--set=train.steps=400", "--set=train.save_every=1000", "--set=train.eval_every=1000"]
    process = start(command(tmp_path / "run", *more))
    while not reached(tmp_path / "run", 2):
        time.sleep(0.01)
        assert process.poll() is None
    os.kill(process.pid, number)
    code, _, err = finish(process)
    assert code == 128 + number
    assert "resume with --resume" in err
    assert "Traceback" not in err
    step = last(tmp_path / "run")["step"]
    assert isinstance(step, int)
    assert 2 <= step < 400
    assert f"at step {step} of 400" in err


def test_resume_of_a_finished_run_says_so_and_changes_nothing(tmp_path: Path) -> None:
    run(command(tmp_path / "run"))
    before = {
        p.name: p.read_bytes() for p in (tmp_path / "run").glob("*.*") if "events" not in p.name
    }
    err = run(command(tmp_path / "run", "--resume"))
    assert "finished" in err
    after = {name: (tmp_path / "run" / name).read_bytes() for name in before}
    assert after == before


def test_resume_without_a_checkpoint_starts_the_run(tmp_path: Path) -> None:
    run(command(tmp_path / "run", "--set=train.steps=2", "--resume"))
    assert last(tmp_path / "run")["step"] == 2
