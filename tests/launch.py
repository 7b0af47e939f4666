"""Start `reconet` as a user does: in a process of its own, or in several by torchrun."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from reconet.cli import main
from reconet.engine import read_log

# Seconds for a whole run: 12 steps of 4 images, two validations, a checkpoint every third step.
TINY_SCENES = [
    "--set=data.options.train=16",
    "--set=data.options.val=3",
    "--set=train.steps=12",
    "--set=train.save_every=3",
    "--set=train.eval_every=6",
    "--set=train.log_every=2",
    "--set=train.deterministic=true",
]
# A small network and two steps, for a recipe of any dataset.
TINY_NETWORK = [
    "--set=train.steps=2",
    "--set=train.batch=2",
    "--set=train.micro_batch=1",
    "--set=data.crop=64",
    "--set=data.base_size=64",
    "--set=data.workers=0",
    "--set=model.width=0.125",
    "--set=model.weights=null",
    "--set=model.rank=2",
    "--device=cpu",
]
# One thread each: several processes share few cores, and threads that wait for one another spin.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def command(directory: Path, *more: str, recipe: str = "scenes/tiny") -> list[str]:
    return ["reconet", "train", recipe, f"--out={directory}", "--device=cpu", *TINY_SCENES, *more]


def start(
    arguments: list[str],
    processes: int = 1,
    torchrun: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    launcher = [sys.executable, "-m"]
    if processes > 1 or torchrun:
        own = torchrun or ("--standalone",)
        launcher += ["torch.distributed.run", f"--nproc-per-node={processes}", *own, "-m"]
    return subprocess.Popen(
        [*launcher, *arguments],
        env=ENVIRONMENT | dict(environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that a kill can reach all of its processes
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=200)
    return process.returncode, out, err


def run(arguments: list[str], processes: int = 1, torchrun: tuple[str, ...] = ()) -> str:
    """Run to the end and return stderr."""
    code, out, err = finish(start(arguments, processes, torchrun))
    assert code == 0, out + err
    return err


def run_main(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command in this process. Return its exit code, stdout and stderr."""
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def in_two_processes(work: Callable[[int], object], folder: Path) -> list[Any]:
    """Run `work(rank)` in two processes that can exchange tensors. Return both results."""
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_work_and_save, args=(work, rank, folder)) for rank in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def _work_and_save(work: Callable[[int], object], rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)
    torch.save(work(rank), folder / f"{rank}.pt")
    dist.destroy_process_group()


def kill_when(process: subprocess.Popen[str], directory: Path, step: int) -> None:
    """Kill all processes of a training once its log has reached a step."""
    while process.poll() is None and not reached(directory, step):
        time.sleep(0.002)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def reached(directory: Path, step: int) -> bool:
    return any(line["step"] >= step for line in read_log(directory))


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return load_file(directory / "best.safetensors")


def last(directory: Path) -> dict[str, object]:
    content: dict[str, object] = torch.load(directory / "last.pt", weights_only=True)
    return content


def figures(directory: Path) -> list[dict[str, object]]:
    """Read the log without speed and memory, which differ from run to run."""
    return [
        {k: v for k, v in line.items() if k not in {"images_per_second", "memory_mb"}}
        for line in read_log(directory)
    ]


def assert_same_run(one: Path, other: Path) -> None:
    """Assert that the weights, the training state and the log are equal to the bit."""
    assert figures(one) == figures(other)
    assert_same(weights(one), weights(other))
    assert_same(last(one), last(other))


def assert_same(one: object, other: object) -> None:
    if isinstance(one, dict):
        assert isinstance(other, dict)
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, torch.Tensor):
        assert isinstance(other, torch.Tensor)
        assert torch.equal(one, other)
    elif isinstance(one, list | tuple):
        assert isinstance(other, list | tuple)
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert one == other
