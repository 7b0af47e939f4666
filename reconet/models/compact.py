"""Encode the weights of a network in about a quarter of their bytes, and decode them.

weights of large convolutions and linear layers   int8, with one fp16 scale per output channel
other parameters                                  fp16
buffers                                           as they are

Small layers are fp16: in a ResNet-50 they are 3 % of the weights and half of the error of int8.
Buffers hold the statistics of batch norm. In fp16 a channel with a large mean and a small variance
would be shifted, a variance above 65,504 would be infinite, and all of them are less than one
percent of a network.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from reconet.errors import CheckpointError

LAYERS = (nn.Conv1d, nn.Conv2d, nn.Linear)
SMALL = 2**16  # weights of a layer. Those with more are int8
LARGEST = 127  # of int8. -128 is not used, so that a weight and its negative are alike
SCALE = ":scale"  # end of a name. Names of weights have no colon
AS_THEY_ARE = (torch.float32, torch.int64)


def encode_weights(model: nn.Module) -> dict[str, Tensor]:
    """Encode all weights of a network, by name."""
    layers = {
        f"{name}.weight" for name, module in model.named_modules() if isinstance(module, LAYERS)
    }
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    encoded: dict[str, Tensor] = {}
    for key, value in model.state_dict().items():
        value = value.cpu().contiguous()
        if key in layers and value.numel() > SMALL:
            encoded[key], encoded[key + SCALE] = quantise_channels(value)
        else:
            encoded[key] = value.half() if key in parameters else value
        if not _is_finite(encoded[key]) or not _is_finite(encoded.get(key + SCALE)):
            raise CheckpointError(f"{key} holds values that are too large, or no numbers.")
    return encoded


def quantise_channels(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round a weight (o, ...) to int8. Return it with the step between two values, fp16 (o,).

    Every weight is within half a step of its value. The steps are rounded up for that, so that
    the largest weight of a channel is in range.
    """
    largest_o = weight.abs().flatten(1).amax(1)
    step_o = (largest_o / LARGEST).half()
    up_o = torch.nextafter(step_o, torch.tensor(torch.inf, dtype=torch.half))
    step_o = torch.where(LARGEST * step_o.float() < largest_o, up_o, step_o)
    divisor_o = step_o.float().where(step_o > 0, 1)  # a channel of zeros has a step of 0
    return (weight / _over_channels(divisor_o, weight)).round().to(torch.int8), step_o


def decode_weights(tensors: Mapping[str, Tensor], source: Path) -> dict[str, Tensor]:
    """Decode weights to fp32. `source` is the file that they come from, which may be damaged."""
    weights: dict[str, Tensor] = {}
    for key, value in tensors.items():
        if key.endswith(SCALE):
            if tensors.get(key.removesuffix(SCALE), value).dtype != torch.int8:
                raise CheckpointError(f"{source} is damaged: {key} belongs to no int8 weights.")
        elif value.dtype == torch.int8:
            weights[key] = _decode_channels(key, value, tensors.get(key + SCALE), source)
        elif value.dtype == torch.half and _is_finite(value):
            weights[key] = value.float()
        elif value.dtype in AS_THEY_ARE:
            weights[key] = value
        else:
            raise CheckpointError(f"{source} is damaged: {key} holds no numbers of a known type.")
    return weights


def _decode_channels(key: str, weight: Tensor, step_o: Tensor | None, source: Path) -> Tensor:
    if (
        step_o is None
        or weight.ndim < 2
        or step_o.shape != weight.shape[:1]
        or step_o.dtype != torch.half
        or not _is_finite(step_o)
    ):
        raise CheckpointError(
            f"{source} is damaged: {key} does not have one fp16 scale per channel."
        )
    return weight.float().mul_(_over_channels(step_o.float(), weight))


def _over_channels(step_o: Tensor, weight: Tensor) -> Tensor:
    return step_o.view(-1, *[1] * (weight.ndim - 1))


def _is_finite(value: Tensor | None) -> bool:
    return value is None or bool(value.isfinite().all())
