"""Measure whether the low-rank tensor of a context is alive: A of reconet, Y of reconet_plus.

In the paper's form the mean of r products of three gates near one half cancels what each rank
learns, and an attention that is the same everywhere does nothing. All measures are computed from
the factors, by r-by-r matrices. The tensor itself is never built.

Whether the tensor depends on the image shows if it is replaced by its mean over many images. If the
score stays the same, one fixed map would do. Maps differ in size from image to image, so the mean
is taken at one size, that of the training crop's map, and is resized to each map.

Dimensions: b batch, r rank, n the length of any axis.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from reconet.models.context.base import ContextModule
from reconet.models.context.low_rank import Factors, LowRankCore, reconstruct
from reconet.models.layers import resize

FactorAxis = Literal["channel", "row", "column"]


class Liveness(NamedTuple):
    """How much the tensor (A or Y) and lambda vary. Means over the batch."""

    attention_spread: float  # standard deviation of the tensor over its mean; 0: constant
    effective_rank: float  # of it, unfolded along channels; 1: one pattern for all channels
    lambda_spread: float  # standard deviation of lambda over its mean size; 0: uniform


def liveness(factors: Factors) -> Liveness:
    singular_br = singular_values(factors, "channel")
    weight_r = factors.weight_r.cpu().double()
    return Liveness(
        attention_spread=attention_spread(factors).mean().item(),
        effective_rank=effective_rank(singular_br).mean().item(),
        lambda_spread=(weight_r.std(correction=0) / weight_r.abs().mean()).item(),
    )


@contextmanager
def record_liveness(context: ContextModule, passes: int = 8) -> Iterator[list[Liveness]]:
    """Collect the liveness of the first few passes through a context, in a list.

    The list stays empty for a context without ranks.
    """
    measured: list[Liveness] = []

    def record(core: nn.Module, args: tuple[Tensor], result: Tensor) -> None:
        if len(measured) < passes and isinstance(core, LowRankCore):
            measured.append(liveness(core.factors(args[0])))

    with nullcontext() if context.core is None else _hooked(context.core, record):
        yield measured


def mean_liveness(measured: list[Liveness]) -> Liveness | None:
    if not measured:
        return None
    return Liveness(*(sum(column) / len(measured) for column in zip(*measured, strict=True)))


def relative_spread(value_n: Tensor) -> Tensor:
    """Divide standard deviation by the size of the mean, along the last axis."""
    value_n = value_n.cpu().double()
    return value_n.std(-1, correction=0) / value_n.mean(-1).abs()


def attention_spread(factors: Factors) -> Tensor:
    """Compute relative_spread of the whole tensor, for each image."""
    weight_r, channel_brc, plane_brn = _doubles(factors)
    mean_br = weight_r * channel_brc.mean(-1) * plane_brn.mean(-1)
    # The mean of its square is a sum over pairs of ranks of products of two Gram matrices.
    gram_brr = _gram(channel_brc) * _gram(plane_brn) / (channel_brc.shape[-1] * plane_brn.shape[-1])
    square_b = (weight_r[:, None] * weight_r * gram_brr).sum((-1, -2))
    mean_b = mean_br.sum(-1)
    return (square_b - mean_b.square()).clamp(min=0).sqrt() / mean_b.abs()


def singular_values(factors: Factors, axis: FactorAxis) -> Tensor:
    """Compute the singular values, largest first, of the tensor unfolded along one axis.

    Along channels there are r of them, (b, r): the unfolding is L @ R with L of r columns
    (channels) and R of r rows (planes), so its singular values are the square roots of the
    eigenvalues of (L'L)(RR'). Along rows or columns there are as many as these.
    """
    weight_r, channel_brc, plane_brn = _doubles(factors)
    left_brr = weight_r[:, None] * weight_r * _gram(channel_brc)
    if not (left_brr.isfinite().all() and plane_brn.isfinite().all()):
        return torch.full(left_brr.shape[:2], torch.nan, dtype=torch.double)  # a diverged network
    if axis == "channel":
        root_brr = _square_root(left_brr)
        gram_bnn = root_brr @ _gram(plane_brn) @ root_brr
    else:
        mixed_brhw = (left_brr @ plane_brn).view_as(factors.plane_brhw)
        pairs = "brhw,brkw->bhk" if axis == "row" else "brhw,brhk->bwk"
        gram_bnn = torch.einsum(pairs, mixed_brhw, factors.plane_brhw.cpu().double())
    singular_bn: Tensor = torch.linalg.eigvalsh(gram_bnn).clamp(min=0).sqrt().flip(-1)
    return singular_bn


def effective_rank(singular_bn: Tensor) -> Tensor:
    """Compute exp of the entropy of the normalised singular values (Roy and Vetterli, 2007)."""
    share_bn = singular_bn / singular_bn.sum(-1, keepdim=True)
    entropy_b: Tensor = torch.special.entr(share_bn).sum(-1)
    return entropy_b.exp()


def _doubles(factors: Factors) -> tuple[Tensor, Tensor, Tensor]:
    weight_r, channel_brc, plane_brhw = (factor.cpu().double() for factor in factors)
    return weight_r, channel_brc, plane_brhw.flatten(2)


def _gram(factor_brn: Tensor) -> Tensor:
    return factor_brn @ factor_brn.transpose(-1, -2)


def _square_root(matrix_brr: Tensor) -> Tensor:
    # Of a symmetric matrix without negative eigenvalues.
    value_br, vector_brr = torch.linalg.eigh(matrix_brr)
    root_br = value_br.clamp(min=0).sqrt()
    root_brr: Tensor = (vector_brr * root_br.unsqueeze(-2)) @ vector_brr.transpose(-1, -2)
    return root_brr


class MeanTensor:
    """The mean of low-rank tensors at one size."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self._sum_chw: Tensor | None = None
        self._count = 0

    def add(self, tensor_bchw: Tensor) -> None:
        """Add the tensors of some images."""
        part_chw = resize(tensor_bchw.cpu().double(), self.size).sum(0)
        self._sum_chw = part_chw if self._sum_chw is None else self._sum_chw + part_chw
        self._count += len(tensor_bchw)

    def value(self) -> Tensor:
        """Return tensor_chw, the mean of what was added."""
        if self._sum_chw is None:
            raise ValueError("the mean of no tensors")
        return self._sum_chw / self._count


@contextmanager
def record_mean(core: LowRankCore, size: tuple[int, int]) -> Iterator[MeanTensor]:
    """Average the tensors of all images that pass through a core."""
    mean = MeanTensor(size)

    def record(_: nn.Module, args: tuple[Tensor], result_bchw: Tensor) -> None:
        mean.add(reconstruct(core.factors(args[0])))

    with torch.no_grad(), _hooked(core, record):
        yield mean


@contextmanager
def replace_tensor(core: LowRankCore, tensor_chw: Tensor) -> Iterator[None]:
    """Let a core use one fixed tensor for all images, and not each image's own."""

    def replace(_: nn.Module, args: tuple[Tensor], result_bchw: Tensor) -> Tensor:
        x_bchw = args[0]
        fixed_bchw = resize(tensor_chw[None], (x_bchw.shape[2], x_bchw.shape[3])).to(x_bchw)
        return core.apply_tensor(x_bchw, fixed_bchw.expand_as(x_bchw))

    with torch.no_grad(), _hooked(core, replace):
        yield


@contextmanager
def _hooked(
    module: nn.Module, hook: Callable[[nn.Module, tuple[Tensor], Tensor], Tensor | None]
) -> Iterator[None]:
    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
