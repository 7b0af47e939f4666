"""Training runs on a GPU: no tensors of two devices meet. The GPU is a pretended one."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from reconet.cli import main
from reconet.engine import check_resources, make_state, training_steps
from reconet.models.context import CONTEXTS
from reconet.system.distributed import Processes
from tests.engine.steps import CLASSES, batches, recipe
from tests.factories import ProgressRecorder
from tests.launch import in_two_processes
from tests.pretend_gpu import Gpu, MixedDevicesError, pretend_gpu
from tests.study.tiny_study import SETTINGS


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    with pretend_gpu() as gpu:
        yield gpu


def test_the_pretend_gpu_refuses_what_a_gpu_refuses(gpu: Gpu) -> None:
    x = torch.ones(3, device="cuda")
    with pytest.raises(MixedDevicesError):
        x + torch.ones(3)
    with pytest.raises(MixedDevicesError):
        torch.stack([x[0], torch.tensor(1.0)])
    with pytest.raises(TypeError, match="cuda:0"):
        x.numpy()
    with pytest.raises(TypeError, match="cuda:0"):
        np.asarray(x)
    assert (x + torch.tensor(1.0)).device == gpu.device
    assert (x.cpu() + torch.ones(3)).tolist() == [2, 2, 2]


EXACT = (
    "train.precision=fp32",
    "loss.focal=1",
    "loss.dice=1",
    "loss.lovasz=1",
    "loss.class_weights=[1, 2, 3, 4, 5]",
    "loss.stride=2",
)
SCALED = ("train.precision=fp16", "optim.kind=adamw", "optim.clip=1", "train.ema=0.9")
SPARING = (
    "train.precision=bf16",
    "train.micro_batch=3",
    "train.channels_last=true",
    "loss.ohem=0.7",
    "loss.ohem_min_kept=100",
)


@pytest.mark.parametrize("settings", [EXACT, SCALED, SPARING])
@pytest.mark.parametrize("context", CONTEXTS)
def test_contexts_train_on_a_gpu(gpu: Gpu, context: str, settings: tuple[str, ...]) -> None:
    chosen = recipe(f"model.context={context}", *settings)
    processes = Processes.single(gpu.device)
    state = make_state(chosen, CLASSES, processes, fresh=True)
    steps = list(training_steps(state, batches(2), chosen, 40, processes))
    assert len(steps) == 2
    assert {p.device for p in state.model.parameters()} == {gpu.device}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_batches_are_pinned_for_a_gpu_alone(tmp_path: Path, gpu: Gpu, device: str) -> None:
    words = [f"--out={tmp_path / 'run'}", f"--device={device}"]
    assert main(["train", "scenes/tiny", *words, *[f"--set={one}" for one in SETTINGS]]) == 0
    assert (gpu.pinned > 0) == (device == "cuda")


def step_of_one(rank: int) -> list[torch.Tensor]:
    """Check the memory and train a step in one of two processes, each with a GPU."""
    with pretend_gpu(count=2) as gpu:
        processes = Processes(rank=rank, size=2, device=torch.device("cuda", rank))
        torch.cuda.set_device(processes.device)
        chosen = recipe("train.batch=8", "train.precision=bf16")
        state = make_state(chosen, CLASSES, processes, fresh=True)
        check_resources(Path(), chosen, state, processes, ProgressRecorder())
        next(training_steps(state, batches(1), chosen, 40, processes))
        assert next(state.model.parameters()).device == gpu.device
        return [p.detach().cpu() for p in state.model.parameters()]


def test_a_training_starts_on_two_gpus(tmp_path: Path) -> None:
    first, second = in_two_processes(step_of_one, tmp_path)
    torch.testing.assert_close(first, second)
