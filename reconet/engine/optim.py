"""How the weights move: SGD with two or three speeds, and a running mean of the weights."""

import copy
import math

import torch
from torch import nn

from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Optim


def make_optimizer(model: Segmenter, optim: Optim) -> torch.optim.SGD:
    """The backbone learns at the base rate, everything after it `head_lr_factor` times faster, and
    the context's core `core_lr_factor` times faster than that.
    """
    core = model.context.core
    # A group of its own only for a speed of its own: checkpoints without one stay readable.
    apart = list(core.parameters()) if core is not None and optim.core_lr_factor != 1 else []
    backbone = list(model.backbone.parameters())
    known = {id(parameter) for parameter in [*backbone, *apart]}
    fresh = [parameter for parameter in model.parameters() if id(parameter) not in known]
    speeds = [(backbone, 1.0), (fresh, optim.head_lr_factor)]
    if apart:
        speeds.append((apart, optim.head_lr_factor * optim.core_lr_factor))
    groups = [
        {"params": [p for p in parameters if p.requires_grad], "lr_factor": factor}
        for parameters, factor in speeds
    ]
    return torch.optim.SGD(
        groups, lr=optim.lr, momentum=optim.momentum, weight_decay=optim.weight_decay
    )


def set_lr(optimizer: torch.optim.Optimizer, optim: Optim, step: int, steps: int) -> float:
    """Set the learning rate of a step; it depends on nothing else."""
    lr = poly(step, steps=steps, lr=optim.lr, power=optim.power)
    for group in optimizer.param_groups:
        group["lr"] = lr * group["lr_factor"]
    return lr


class Ema:
    """A running mean of the weights, in a network of its own."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for mean, value in zip(
            self.model.state_dict().values(), model.state_dict().values(), strict=True
        ):
            if mean.is_floating_point():
                mean.lerp_(value.to(mean.dtype), 1 - self.decay)
            else:
                mean.copy_(value)


def poly(step: int, *, steps: int, lr: float, power: float = 0.9) -> float:
    """Decay from `lr` at step 0 to zero at `steps`; beyond the end it stays zero."""
    return lr * math.pow(max(0.0, 1.0 - step / steps), power)
