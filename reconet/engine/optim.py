"""Make the optimiser, set its learning rate, and keep a running mean of the weights."""

import copy
import math
from typing import Any

import torch
from torch import nn

from reconet.models.segmenter import Segmenter
from reconet.recipes.schema import Optim

SECOND_BETA = 0.999  # of AdamW
# Parts of the names of parameters that are no weights of a layer.
NOT_DECAYED = ("_token", "position_embeddings", "relative_position_bias")


def make_optimizer(model: Segmenter, optim: Optim) -> torch.optim.Optimizer:
    """Make the optimiser, with groups of parameters that share a learning rate.

    The backbone learns at the base rate, everything after it `head_lr_factor` times faster, and
    the context's core `core_lr_factor` times faster than that. With `layer_decay`, each layer of
    the backbone learns slower than the one after it.
    """
    groups = _rate_groups(model, optim)
    if optim.kind == "sgd":
        return torch.optim.SGD(
            groups, lr=optim.lr, momentum=optim.momentum, weight_decay=optim.weight_decay
        )
    return torch.optim.AdamW(
        _decay_groups(model, groups, optim.weight_decay),
        lr=optim.lr,
        betas=(optim.momentum, SECOND_BETA),
    )


def _rate_groups(model: Segmenter, optim: Optim) -> list[dict[str, Any]]:
    core = model.context.core
    # The core is a group only if it has a rate of its own: older checkpoints stay readable.
    in_core = list(core.parameters()) if core is not None and optim.core_lr_factor != 1 else []
    backbone = model.trunk_parameters()
    known = {id(parameter) for parameter in [*backbone, *in_core]}
    head = [parameter for parameter in model.parameters() if id(parameter) not in known]
    factors = [(backbone, 1.0)]
    if optim.layer_decay != 1:
        factors = _layers(model, optim.layer_decay)
    factors.append((head, optim.head_lr_factor))
    if in_core:
        factors.append((in_core, optim.head_lr_factor * optim.core_lr_factor))
    return [
        {"params": [p for p in parameters if p.requires_grad], "lr_factor": factor}
        for parameters, factor in factors
    ]


def _layers(model: Segmenter, decay: float) -> list[tuple[list[nn.Parameter], float]]:
    """Group the backbone by depth. The last layer is one step of decay below the head."""
    depths = model.backbone.parameter_depths()
    last = max(depths.values(), default=0)
    layers: list[list[nn.Parameter]] = [[] for _ in range(last + 1)]
    for name, parameter in model.backbone.named_parameters():
        layers[depths.get(name, 0)].append(parameter)
    if model.project is not None:
        layers[last].extend(model.project.parameters())
    return [(layer, decay ** (last + 1 - depth)) for depth, layer in enumerate(layers)]


def _decay_groups(
    model: Segmenter, groups: list[dict[str, Any]], weight_decay: float
) -> list[dict[str, Any]]:
    """Split each group into parameters with weight decay and those without."""
    without = {
        id(parameter)
        for name, parameter in model.named_parameters()
        if parameter.ndim <= 1 or any(part in name for part in NOT_DECAYED)
    }
    parts = []
    for group in groups:
        for decay, chosen in ((weight_decay, False), (0.0, True)):
            params = [p for p in group["params"] if (id(p) in without) == chosen]
            parts.append({**group, "params": params, "weight_decay": decay})
    return parts


def set_lr(optimizer: torch.optim.Optimizer, optim: Optim, step: int, steps: int) -> float:
    """Set the learning rate of a step, which depends on the step alone, and return it."""
    lr = learning_rate(optim, step, steps)
    for group in optimizer.param_groups:
        group["lr"] = lr * group["lr_factor"]
    return lr


def learning_rate(optim: Optim, step: int, steps: int) -> float:
    """Return the base rate of a step: a straight rise in the warm-up, below the poly decay."""
    lr = poly(step, steps=steps, lr=optim.lr, power=optim.power)
    return lr * (step + 1) / optim.warmup if step < optim.warmup else lr


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
