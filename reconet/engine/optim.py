"""Make the optimiser, set its learning rate, and keep a running mean of the weights."""

import copy
import math

import torch
from torch import nn

from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Optim


def make_optimizer(model: Segmenter, optim: Optim) -> torch.optim.SGD:
    """Make an SGD optimiser with two or three groups of parameters.

    The backbone learns at the base rate, everything after it `head_lr_factor` times faster, and
    the context's core `core_lr_factor` times faster than that.
    """
    core = model.context.core
    # The core is a group only if it has a rate of its own: older checkpoints stay readable.
    in_core = list(core.parameters()) if core is not None and optim.core_lr_factor != 1 else []
    backbone = model.trunk_parameters()
    known = {id(parameter) for parameter in [*backbone, *in_core]}
    head = [parameter for parameter in model.parameters() if id(parameter) not in known]
    factors = [(backbone, 1.0), (head, optim.head_lr_factor)]
    if in_core:
        factors.append((in_core, optim.head_lr_factor * optim.core_lr_factor))
    groups = [
        {"params": [p for p in parameters if p.requires_grad], "lr_factor": factor}
        for parameters, factor in factors
    ]
    return torch.optim.SGD(
        groups, lr=optim.lr, momentum=optim.momentum, weight_decay=optim.weight_decay
    )


def set_lr(optimizer: torch.optim.Optimizer, optim: Optim, step: int, steps: int) -> float:
    """Set the learning rate of a step, which depends on the step alone, and return it."""
    lr = poly(step, steps=steps, lr=optim.lr, power=optim.power)
    for group in optimizer.param_groups:
        group["lr"] = lr * group["lr_factor"]
    return lr


class Ema:
    """A copy of a network whose weights are a running mean of the original's."""

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
    """Return a rate that decays from `lr` at step 0 to zero at `steps`, and then stays zero."""
    return lr * math.pow(max(0.0, 1.0 - step / steps), power)
