"""Compute batch norm over the whole batch, however many processes share it."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from reconet.system.distributed import Processes


def synchronise_batchnorm(model: nn.Module, processes: Processes) -> nn.Module:
    """Replace every batch norm by one that sees the whole batch.

    On GPUs this is torch's SyncBatchNorm. torch has none for CPUs, so ours is used there.
    A PooledBN is replaced too: two processes always have two values per channel.
    """
    if processes.size == 1:
        return model
    if processes.device.type == "cuda":
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        return converted
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, SyncBatchNorm.like(child))
    return model


class SyncBatchNorm(nn.BatchNorm2d):
    """Batch norm over all processes, on any device, for any number of images in each."""

    @classmethod
    def like(cls, norm: nn.BatchNorm2d) -> "SyncBatchNorm":
        """Make one that shares the parameters and the running statistics of `norm`."""
        copy = cls(norm.num_features, norm.eps, norm.momentum)
        copy.weight, copy.bias = norm.weight, norm.bias
        copy.running_mean, copy.running_var = norm.running_mean, norm.running_var
        copy.num_batches_tracked = norm.num_batches_tracked
        return copy

    def forward(self, x_bchw: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x_bchw)
        x = x_bchw.float()
        pixels = torch.tensor([x.numel() / x.shape[1]], device=x.device)
        # Mean first, then variance: E[x^2] - E[x]^2 in one pass would lose digits.
        sum_c, count = all_sum(torch.cat([x.sum((0, 2, 3)), pixels])).split([x.shape[1], 1])
        mean_c = sum_c / count
        centred = x - mean_c[:, None, None]
        var_c = all_sum(centred.square().sum((0, 2, 3))) / count
        self._track(mean_c.detach(), var_c.detach(), count.detach())
        scale_c = self.weight * torch.rsqrt(var_c + self.eps)
        y = centred * scale_c[:, None, None] + self.bias[:, None, None]
        return y.to(x_bchw.dtype)  # type: ignore[no-any-return]

    @torch.no_grad()
    def _track(self, mean_c: Tensor, var_c: Tensor, count: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        unbiased_c = var_c * count / (count - 1).clamp(min=1)
        self.running_mean.lerp_(mean_c, self.momentum)
        self.running_var.lerp_(unbiased_c, self.momentum)
        self.num_batches_tracked += 1


def all_sum(value: Tensor) -> Tensor:
    """Sum over all processes, with a gradient."""
    result: Tensor = _AllSum.apply(value)  # type: ignore[no-untyped-call]
    return result


class _AllSum(torch.autograd.Function):
    """A sum over all processes. Each result depends on all values, so gradients are summed too."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        value = value.contiguous().clone()
        dist.all_reduce(value)
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        gradient = gradients[0].contiguous().clone()
        dist.all_reduce(gradient)
        return gradient
