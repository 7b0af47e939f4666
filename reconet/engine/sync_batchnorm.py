"""Batch norm over the whole batch, however many processes share it."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from reconet.system.distributed import World


def synchronise_batchnorm(model: nn.Module, world: World) -> nn.Module:
    """Make every batch norm see the whole batch: torch's own on GPUs, ours where it has none.

    A PooledBN becomes one like the others: two processes always have two values per channel.
    """
    if world.size == 1:
        return model
    if world.device.type == "cuda":
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
        twin = cls(norm.num_features, norm.eps, norm.momentum)
        twin.weight, twin.bias = norm.weight, norm.bias
        twin.running_mean, twin.running_var = norm.running_mean, norm.running_var
        twin.num_batches_tracked = norm.num_batches_tracked
        return twin

    def forward(self, x_bchw: Tensor) -> Tensor:
        if not self.training:
            return super().forward(x_bchw)
        x = x_bchw.float()
        pixels = torch.tensor([x.numel() / x.shape[1]], device=x.device)
        # Two sums, one after the other: E[x^2] - E[x]^2 in one go would lose digits.
        sum_c, count = total(torch.cat([x.sum((0, 2, 3)), pixels])).split([x.shape[1], 1])
        mean_c = sum_c / count
        centred = x - mean_c[:, None, None]
        var_c = total(centred.square().sum((0, 2, 3))) / count
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


def total(value: Tensor) -> Tensor:
    """Sum over all processes, with a gradient."""
    result: Tensor = _Total.apply(value)  # type: ignore[no-untyped-call]
    return result


class _Total(torch.autograd.Function):
    """Every process's result depends on every process's value, so gradients are summed as well."""

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
