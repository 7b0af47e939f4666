"""A GPU is not waited for between two lines of the log: nothing is read. The GPU is pretended."""

from collections import Counter
from pathlib import Path

import pytest
import torch

from reconet.engine import make_state, read_losses, training_steps
from tests.engine.steps import CLASSES, Processes, batches, recipe
from tests.launch import in_two_processes
from tests.pretend_gpu import pretend_gpu

PLAIN = ("train.ema=0.9", "train.micro_batch=3", "loss.stride=2")


def reads_of_steps(settings: tuple[str, ...], rank: int = 0, size: int = 1) -> Counter[str]:
    """Train some steps after a first one, and count what is read from the GPU by which line."""
    with pretend_gpu(count=size) as gpu:
        processes = Processes(rank=rank, size=size, device=gpu.device, local_rank=rank)
        chosen = recipe(*settings)
        torch.manual_seed(0)
        state = make_state(chosen, CLASSES, processes, fresh=True)
        steps = training_steps(state, batches(4), chosen, 40, processes)
        next(steps)
        gpu.reads.clear()
        done = list(steps)
        reads = gpu.reads.copy()
        assert len(read_losses(done, processes)) == 3
        return reads


@pytest.mark.parametrize(
    "settings",
    [
        PLAIN,
        ("train.precision=bf16", "optim.kind=adamw", "train.channels_last=true"),
        ("loss.ohem=0.7", "loss.ohem_min_kept=100", "loss.focal=1"),
        ("loss.class_weights=[1, 2, 3, 4, 5]",),
    ],
)
def test_steps_read_nothing(settings: tuple[str, ...]) -> None:
    assert reads_of_steps(settings) == Counter()


def reads_of_two(rank: int) -> Counter[str]:
    return reads_of_steps(PLAIN, rank, 2)


def test_two_processes_read_nothing_and_exchange_no_tensor_of_the_cpu(tmp_path: Path) -> None:
    assert in_two_processes(reads_of_two, tmp_path) == [Counter(), Counter()]
