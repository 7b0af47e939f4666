"""Compute in the number format that a recipe asks for."""

from typing import Literal

import torch
from torch import nn

Precision = Literal["fp32", "bf16", "fp16"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(device: torch.device, precision: Precision) -> torch.autocast:
    """Return a context in which layers compute in `precision`. fp32 changes nothing."""
    return torch.autocast(device.type, DTYPES[precision], enabled=precision != "fp32")


def cast_layers(model: nn.Module, precision: Precision) -> None:
    """Turn the layers that autocast would cast in every call into `precision`, in place."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.to(DTYPES[precision])
