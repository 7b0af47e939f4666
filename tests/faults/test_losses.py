"""Full disks, vanishing images, dying workers: one line of error, and the work is kept."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.data.trees import make_tree
from tests.faults.client import ForkServer, Result, UndisturbedRun, arguments, assert_readable
from tests.launch import TINY_NETWORK, assert_same_run, command, finish, last, start


def assert_one_line(result: Result, message: str) -> None:
    assert result.code == 2, result.output
    line = result.output.splitlines()[-1]
    assert line.startswith("reconet: ")
    assert message in line
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "fault", [pytest.param(("full", 5), marks=pytest.mark.slow), ("no-room", 300_000)]
)
def test_a_full_disk_is_one_line_and_the_run_resumes_when_there_is_room(
    server: ForkServer, undisturbed: UndisturbedRun, tmp_path: Path, fault: tuple[str, int]
) -> None:
    directory = tmp_path / "run"
    assert_one_line(server.run(arguments(directory), fault=fault), "cannot write")
    assert_readable(directory)
    assert not list(directory.glob(".*.part"))
    assert server.run(arguments(directory)).code == 0
    assert_same_run(undisturbed.directory, directory)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=5m", "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk, and not in every container")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_small_disk_is_noticed_before_the_first_step_or_keeps_the_last_checkpoint(
    server: ForkServer, small_disk: Path
) -> None:
    directory = small_disk / "run"
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * 4_800_000)
    assert_one_line(server.run(arguments(directory)), "free")
    ballast.unlink()
    assert server.run(arguments(directory)).code == 0
    assert_readable(directory)


def test_a_worker_that_dies_costs_nothing(
    server: ForkServer, undisturbed: UndisturbedRun, tmp_path: Path
) -> None:
    more = ["--set=data.workers=1", "--set=train.save_every=100"]
    directory = tmp_path / "run"
    result = server.run(arguments(directory, *more), fault=("worker", 14))
    assert_one_line(result, "worker process that reads images died")
    assert isinstance(last(directory)["step"], int)
    assert server.run(arguments(directory, *more)).code == 0
    assert_same_run(undisturbed.directory, directory)


# The start reads 1 image. Each of two validations reads 2, then the same 2 to draw them.
@pytest.mark.parametrize("reading", [pytest.param(3, marks=pytest.mark.slow), 6])
def test_a_validation_that_failed_is_made_up_for(
    server: ForkServer, undisturbed: UndisturbedRun, tmp_path: Path, reading: int
) -> None:
    more = ["--set=train.save_every=100"]
    directory = tmp_path / "run"
    result = server.run(arguments(directory, *more), fault=("validation", reading))
    assert_one_line(result, "an image is gone")
    assert last(directory)["step"] == (3 if reading == 3 else 6), "no step is lost"
    assert server.run(arguments(directory, *more)).code == 0
    assert_same_run(undisturbed.directory, directory)


def test_an_image_that_vanishes_names_itself_and_keeps_the_work(
    server: ForkServer, tmp_path: Path
) -> None:
    make_tree("camvid", tmp_path / "data")
    words = [
        "train",
        "folder/reconet",
        *TINY_NETWORK,
        f"--set=data.root={tmp_path / 'data'}",
        "--resume",
    ]
    words += ["--set=data.name=camvid", "--set=train.steps=4", f"--out={tmp_path / 'run'}"]
    result = server.run(words, fault=("vanish", 6))  # two images a step
    assert_one_line(result, "no such file or directory")
    assert last(tmp_path / "run")["step"] == 2


@pytest.mark.slow
def test_two_processes_end_together_when_one_meets_a_broken_image(tmp_path: Path) -> None:
    make_tree("camvid", tmp_path / "data")
    broken = sorted((tmp_path / "data").rglob("train/*.png"))[1]
    broken.write_bytes(broken.read_bytes()[:200])
    words = [
        "reconet",
        "train",
        "folder/reconet",
        *TINY_NETWORK,
        f"--set=data.root={tmp_path / 'data'}",
    ]
    words += ["--set=data.name=camvid", "--set=train.steps=6", f"--out={tmp_path / 'run'}"]
    code, out, err = finish(start(words, processes=2))
    assert code != 0
    assert err.count(f"cannot read {broken}") == 1, out + err
    assert "Connection closed by peer" not in err
    assert isinstance(last(tmp_path / "run")["step"], int)


@pytest.mark.slow
def test_a_second_training_in_the_same_place_is_refused_and_the_first_is_not_disturbed(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    first = start(command(tmp_path / "run", "--resume"))
    second = [start(command(tmp_path / "run", "--resume")) for _ in range(int(rng.integers(2, 4)))]
    results = [finish(process) for process in (first, *second)]
    refused = [err for code, _, err in results if code == 2]
    assert sum(code == 0 for code, _, _ in results) >= 1
    assert all("another process is training in" in err for err in refused)
    assert last(tmp_path / "run")["step"] == 12
