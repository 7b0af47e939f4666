"""Compute batch norm over the whole batch, however many processes share it.

A layer waits for the other processes once forward and once backward. The passes over the map are
those of torch's own batch norm.
"""

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.system.distributed import Processes


def synchronise_batchnorm(model: nn.Module, processes: Processes) -> nn.Module:
    """Replace every batch norm by one that sees the whole batch.

    torch's SyncBatchNorm is for GPUs alone, refuses meta tensors, and reads from the GPU in every
    layer. A PooledBN is replaced too: two processes always have two values per channel.
    """
    if processes.size == 1:
        return model
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
        # On meta one process counts costs by itself, and nobody would answer.
        if not self.training or x_bchw.is_meta:
            stored = (self.running_mean, self.running_var, self.weight, self.bias)
            return F.batch_norm(x_bchw, *stored, eps=self.eps)
        arguments = (x_bchw, self.weight, self.bias, self.eps)
        y, mean_c, var_c, count = _Normalise.apply(*arguments)  # type: ignore[no-untyped-call]
        self._track(mean_c, var_c, count)
        return y  # type: ignore[no-any-return]

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


def gather_statistics(x_bchw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and variance of each channel over all processes, and the number of pixels.

    Each process sends its own mean, variance and number. E[x^2] - E[x]^2 would lose digits.
    """
    own_mean_c, own_var_c = torch.batch_norm_update_stats(x_bchw, None, None, 0.0)
    own_count = own_mean_c.new_tensor([x_bchw.numel() / x_bchw.shape[1]])
    sent = torch.cat([own_mean_c, own_var_c, own_count])
    received = [torch.empty_like(sent) for _ in range(dist.get_world_size())]
    dist.all_gather(received, sent)
    channels = x_bchw.shape[1]
    mean_pc, var_pc, count_p1 = torch.stack(received).split([channels, channels, 1], dim=1)
    count = count_p1.sum()
    share_p1 = count_p1 / count
    mean_c = (share_p1 * mean_pc).sum(0)
    var_c = (share_p1 * (var_pc + (mean_pc - mean_c).square())).sum(0)
    return mean_c, var_c, count


class _Normalise(torch.autograd.Function):
    """Normalise by the statistics of all processes. They depend on all values, as in torch's own.

    With z = (x - mean) / std and sums over all processes, the gradient of x is

        weight / std * (dy - sum(dy) / count - z * sum(dy * z) / count)
    """

    @staticmethod
    def forward(
        ctx: Any, x_bchw: Tensor, weight_c: Tensor, bias_c: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        full_bchw = x_bchw.float()
        mean_c, var_c, count = gather_statistics(full_bchw)
        ctx.save_for_backward(x_bchw, weight_c, mean_c, var_c, count)
        ctx.eps = eps
        ctx.mark_non_differentiable(mean_c, var_c, count)
        y = F.batch_norm(full_bchw, mean_c, var_c, weight_c, bias_c, eps=eps)
        return y.to(x_bchw.dtype), mean_c, var_c, count

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x_bchw, weight_c, mean_c, var_c, count = ctx.saved_tensors
        full_bchw, dy_bchw = x_bchw.float(), gradients[0].float()
        invstd_c = torch.rsqrt(var_c + ctx.eps)
        wanted = [False, True, True]  # of x, weight, bias: the second is sum(dy * z)
        _, dweight_c, dbias_c = torch.ops.aten.native_batch_norm_backward(
            dy_bchw, full_bchw, weight_c, mean_c, var_c, mean_c, invstd_c, False, ctx.eps, wanted
        )
        if not ctx.needs_input_grad[0]:
            return None, dweight_c, dbias_c, None
        sums = torch.cat([dweight_c, dbias_c])
        dist.all_reduce(sums)
        sum_dyz_c, sum_dy_c = (sums / count).chunk(2)
        scale_c = weight_c * invstd_c
        # The terms with z and without dy are a batch norm of x.
        dx_bchw = F.batch_norm(
            full_bchw, mean_c, var_c, -scale_c * sum_dyz_c, -scale_c * sum_dy_c, eps=ctx.eps
        )
        dx_bchw.addcmul_(dy_bchw, scale_c[:, None, None])
        return dx_bchw.to(x_bchw.dtype), dweight_c, dbias_c, None
