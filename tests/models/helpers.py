"""Small stages and features for tests of single contexts. Maps are not square."""

from typing import Any

import torch
from torch import Tensor, nn

from reconet.models import Features, FeatureSpec, Stages

SIZE = (5, 7)


def stages(channels: int = 32, size: tuple[int, int] = SIZE) -> Stages:
    """Make stages with `channels` in c4. c1 is twice as large as the others (output stride 8)."""
    height, width = size
    return Stages(
        FeatureSpec(channels=channels // 8, height=2 * height, width=2 * width),
        FeatureSpec(channels=channels // 4, height=height, width=width),
        FeatureSpec(channels=channels // 2, height=height, width=width),
        FeatureSpec(channels=channels, height=height, width=width),
    )


def features(of: Stages, batch: int = 2) -> Features:
    return Features(*(torch.randn(batch, s.channels, s.height, s.width) for s in of))


def shuffled(x_bchw: Tensor) -> Tensor:
    """Put the pixels in another order, the same one for every call of the same size."""
    generator = torch.Generator().manual_seed(7)
    order_n = torch.randperm(x_bchw.shape[2] * x_bchw.shape[3], generator=generator)
    return x_bchw.flatten(2)[..., order_n].view_as(x_bchw)


def part(module: nn.Module, path: str) -> Any:
    """Return a layer by its dotted path, whatever its type."""
    return module.get_submodule(path)


def stir(module: nn.Module) -> nn.Module:
    """Set random norms, and eval mode. A fresh norm is the identity and hides its own absence."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            assert part.running_mean is not None
            assert part.running_var is not None
            nn.init.uniform_(part.weight, 0.5, 2)
            nn.init.normal_(part.bias)
            nn.init.normal_(part.running_mean, std=0.1)
            nn.init.uniform_(part.running_var, 0.5, 2)
    return module.eval()
