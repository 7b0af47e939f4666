"""Test whether a low-rank tensor depends on the image: replace it by its mean over many images.

The tensor is the attention A of reconet, and the context Y of reconet_plus. If the score stays the
same, the tensor is dead: one fixed map would do.

Maps differ in size from image to image. So the mean is taken at one size, that of the training
crop's map, and is resized to each map.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from reconet.models.context.low_rank import LowRankCore, reconstruct
from reconet.models.layers import resize


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

    def record(core: nn.Module, args: tuple[Tensor], result_bchw: Tensor) -> None:
        assert isinstance(core, LowRankCore)
        mean.add(reconstruct(core.factors(args[0])))

    with _hooked(core, record):
        yield mean


@contextmanager
def replace_tensor(core: LowRankCore, tensor_chw: Tensor) -> Iterator[None]:
    """Let a core use one fixed tensor for all images, and not each image's own."""

    def replace(core: nn.Module, args: tuple[Tensor], result_bchw: Tensor) -> Tensor:
        assert isinstance(core, LowRankCore)
        x_bchw = args[0]
        fixed_bchw = resize(tensor_chw[None], (x_bchw.shape[2], x_bchw.shape[3])).to(x_bchw)
        return core.apply_tensor(x_bchw, fixed_bchw.expand_as(x_bchw))

    with _hooked(core, replace):
        yield


@contextmanager
def _hooked(
    core: LowRankCore, hook: Callable[[nn.Module, tuple[Tensor], Tensor], Tensor | None]
) -> Iterator[None]:
    handle = core.register_forward_hook(hook)
    try:
        with torch.no_grad():
            yield
    finally:
        handle.remove()
