"""Fold each batch norm into the convolution before it, for networks that are only used.

In use a batch norm is a fixed scale and shift of each channel, which a convolution can do by
itself: w' = w * s, b' = (b - mean) * s + shift with s = gain / sqrt(variance + eps).
"""

from collections import Counter
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from reconet.models.segmenter import Segmenter

PROBE = (1, 3, 65, 49)  # a small image; not square, so that no map is square by accident


@torch.no_grad()
def fold_batchnorm(model: Segmenter) -> Segmenter:
    """Return a copy in eval mode that computes the same with fewer passes over its maps.

    One forward pass shows which batch norm follows which convolution. If folding changes the
    result, the copy is not folded.
    """
    folded = deepcopy(model).eval()
    weight = folded.mean_c11  # a network of a user may have no parameters
    probe_bchw = torch.linspace(0, 1, 3 * 65 * 49, device=weight.device).view(PROBE)
    probe_bchw = probe_bchw.to(weight.dtype)
    pairs, expected_bkhw = _pairs(folded, probe_bchw)
    for conv, norm in pairs:
        before, after = folded.get_submodule(conv), folded.get_submodule(norm)
        assert isinstance(before, nn.Conv2d)
        assert isinstance(after, nn.BatchNorm2d)
        _fold(before, after)
        parent, _, name = norm.rpartition(".")
        setattr(folded.get_submodule(parent), name, nn.Identity())
    tolerance = 1e-3 * expected_bkhw.abs().max().item()
    close = torch.allclose(folded.coarse(probe_bchw), expected_bkhw, rtol=1e-3, atol=tolerance)
    return folded if close else deepcopy(model).eval()


def _fold(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    """Put a batch norm into the weights of a convolution."""
    mean_c, variance_c = norm.running_mean, norm.running_var
    assert mean_c is not None
    assert variance_c is not None
    conv.weight, conv.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, mean_c, variance_c, norm.eps, norm.weight, norm.bias
    )


def _pairs(model: Segmenter, probe_bchw: Tensor) -> tuple[list[tuple[str, str]], Tensor]:
    """Find convolutions and the batch norms that take their output, by name.

    Also return the logits of the image that shows it.
    """
    names: dict[nn.Module, str] = {
        module: name
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d)
    }
    made: dict[int, str] = {}  # id of a tensor -> the convolution that computed it
    alive: list[Tensor] = []  # the id of a freed tensor may be used again
    pairs: list[tuple[str, str]] = []
    calls: Counter[str] = Counter()

    def record(module: nn.Module, inputs: tuple[Tensor, ...], result: Tensor) -> None:
        calls[names[module]] += 1
        if isinstance(module, nn.Conv2d):
            made[id(result)] = names[module]
            alive.append(result)
        elif id(inputs[0]) in made:
            pairs.append((made[id(inputs[0])], names[module]))

    hooks = [module.register_forward_hook(record) for module in names]
    try:
        logits_bkhw = model.coarse(probe_bchw)
    finally:
        for hook in hooks:
            hook.remove()
    return [pair for pair in pairs if calls[pair[0]] == calls[pair[1]] == 1], logits_bkhw
