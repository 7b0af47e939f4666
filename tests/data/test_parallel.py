import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from reconet.data.parallel import map_in_processes
from reconet.errors import DataError


@pytest.mark.parametrize("workers", [0, 2])
def test_results_come_in_the_order_of_the_things(workers: int) -> None:
    assert list(map_in_processes(abs, range(-50, 3), workers)) == [abs(n) for n in range(-50, 3)]


def test_a_worker_that_was_ended_is_told() -> None:
    with pytest.raises(DataError, match="a worker process was ended"):
        list(map_in_processes(os._exit, [9], 1))


def test_leaving_early_does_not_wait_for_the_rest() -> None:
    results = map_in_processes(time.sleep, [0.0, *[0.02] * 4000], 1, chunk=1)
    assert next(results) is None
    began = time.monotonic()
    results.close()
    assert time.monotonic() - began < 40, "4000 items take 80 seconds"


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [child for child in process.children() if "spawn_main" in " ".join(child.cmdline())]
    except psutil.Error:
        return []


def first_starts(process: psutil.Process) -> bool:
    return len(workers_of(process)) >= 1


def all_start(process: psutil.Process) -> bool:
    return len(workers_of(process)) >= 2


def they_work(process: psutil.Process) -> bool:
    """Wait until a worker has used a second of processor time, more than it takes to start."""
    try:
        return any(sum(worker.cpu_times()[:2]) > 1 for worker in workers_of(process))
    except psutil.Error:
        return False


def start_check() -> "subprocess.Popen[str]":
    """Start a command that works in two processes."""
    command = [sys.executable, "-m", "reconet", "data", "check", "scenes", "--workers=2"]
    environment = os.environ | {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal interrupts all of its processes at once
    )


@pytest.mark.parametrize("moment", [first_starts, all_start, they_work])
def test_ctrl_c_ends_all_processes_without_a_traceback(
    moment: Callable[[psutil.Process], bool],
) -> None:
    child = start_check()
    process = psutil.Process(child.pid)
    while child.poll() is None and not moment(process):
        time.sleep(0.001)
    workers = workers_of(process)
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=100)
    assert child.returncode == 128 + signal.SIGINT, out + err
    assert "Traceback" not in err
    assert out == ""
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive


def test_workers_end_when_their_parent_is_killed() -> None:
    child = start_check()
    process = psutil.Process(child.pid)
    while child.poll() is None and not they_work(process):
        time.sleep(0.001)
    workers = workers_of(process)
    assert workers
    child.kill()
    child.communicate(timeout=100)
    _, alive = psutil.wait_procs(workers, timeout=100)
    assert not alive
