"""Batch norm over processes equals batch norm over the whole batch, gradients included."""

from pathlib import Path

import torch
from torch import Tensor, nn

from reconet.engine import SyncBatchNorm, synchronise_batchnorm
from reconet.models.layers import PooledBN
from tests.engine.steps import Processes
from tests.launch import in_two_processes

SHARES = (3, 1)  # images of each process: not the same number


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = 5 + torch.randn(4, 6, 5, 7, generator=generator)
    return x, torch.randn(4, 6, 5, 7, generator=generator)


def one_cell_each() -> Tensor:
    """Make an image for each of two processes, pooled to one cell."""
    return torch.randn(2, 6, 1, 1, generator=torch.Generator().manual_seed(1))


def fresh_norm(kind: type[nn.BatchNorm2d]) -> nn.BatchNorm2d:
    norm = kind(6)
    with torch.no_grad():
        norm.weight.copy_(torch.linspace(0.5, 2, 6))
        norm.bias.copy_(torch.linspace(-1, 1, 6))
    return norm


def work(rank: int) -> list[Tensor | None]:
    x, gradient = (part.split(SHARES)[rank] for part in batch())
    x.requires_grad_()
    norm = fresh_norm(SyncBatchNorm)
    y = norm(x)
    (y * gradient).sum().backward()
    assert x.grad is not None
    assert norm.running_mean is not None
    assert norm.running_var is not None
    result: list[Tensor | None] = [
        y.detach(),
        x.grad,
        norm.running_mean,
        norm.running_var,
        norm.weight.grad,
    ]
    pooled = nn.Sequential(fresh_norm(PooledBN))
    synchronise_batchnorm(pooled, Processes(rank=rank, size=2, device=torch.device("cpu")))
    result.append(pooled(one_cell_each()[rank : rank + 1]).detach())
    return [*result, *far_from_zero(rank)]


def far_from_zero(rank: int) -> list[Tensor | None]:
    """Normalise values with a large mean, in the other layout of memory."""
    x, gradient = (part.split(SHARES)[rank] for part in batch())
    x = (x + 1000).contiguous(memory_format=torch.channels_last).requires_grad_()
    norm = fresh_norm(SyncBatchNorm)
    (norm(x) * gradient).sum().backward()
    return [x.grad, norm.running_var]


def test_batch_norm_over_two_processes_equals_one_over_the_whole_batch(tmp_path: Path) -> None:
    parts = in_two_processes(work, tmp_path)
    x, gradient = batch()
    x.requires_grad_()
    norm = fresh_norm(nn.BatchNorm2d)
    y = norm(x)
    (y * gradient).sum().backward()
    torch.testing.assert_close(torch.cat([p[0] for p in parts]), y.detach())
    torch.testing.assert_close(torch.cat([p[1] for p in parts]), x.grad, atol=1e-5, rtol=1e-4)
    for part in parts:
        torch.testing.assert_close(part[2], norm.running_mean)
        torch.testing.assert_close(part[3], norm.running_var)
    torch.testing.assert_close(parts[0][4] + parts[1][4], norm.weight.grad)
    pooled = fresh_norm(PooledBN)(one_cell_each()).detach()
    torch.testing.assert_close(torch.cat([p[5] for p in parts]), pooled)
    # The variance does not lose digits to the mean.
    torch.testing.assert_close(torch.cat([p[6] for p in parts]), x.grad, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(parts[0][7], norm.running_var, atol=0, rtol=1e-3)


def test_conversion_keeps_the_weights_and_the_state(tmp_path: Path) -> None:
    inner = nn.Sequential(nn.BatchNorm2d(4), nn.ReLU(), PooledBN(4))
    model = nn.Sequential(nn.Conv2d(3, 4, 1), inner)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    weight = inner[0].weight
    processes = Processes(rank=0, size=2, device=torch.device("cpu"))
    synchronise_batchnorm(model, processes)
    assert isinstance(inner[0], SyncBatchNorm)
    assert isinstance(inner[2], SyncBatchNorm)
    assert inner[0].weight is weight
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_one_process_keeps_the_batch_norm_of_torch() -> None:
    model = nn.Sequential(nn.BatchNorm2d(4))
    synchronise_batchnorm(model, Processes.single(torch.device("cpu")))
    assert type(model[0]) is nn.BatchNorm2d


def test_one_process_counts_costs_without_the_others() -> None:
    x_bchw = torch.empty(1, 6, 1, 1, device="meta")  # pooled: one value per channel
    assert SyncBatchNorm(6).to("meta").train()(x_bchw).shape == x_bchw.shape
