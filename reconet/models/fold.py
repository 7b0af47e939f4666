"""A network for use only: batch norm folded into the convolution before it.

In use a batch norm is a fixed scale and shift of each channel, and so is part of what a convolution
can do by itself: w' = w * s, b' = (b - mean) * s + shift with s = gain / sqrt(variance + eps).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from reconet.models.segmenter import Segmenter

Look = Callable[[str, nn.Module, Tensor, Tensor], None]
PROBE = (1, 3, 65, 49)  # a small image; not square, so that no map is square by accident


@torch.no_grad()
def fold_batchnorm(model: Segmenter) -> Segmenter:
    """A copy in eval mode that computes the same with fewer passes over its maps.

    Which batch norm follows which convolution is not guessed from names: one forward pass is
    watched. Where folding would change the result, the network is returned as it was.
    """
    plain = deepcopy(model).eval()
    folded = deepcopy(plain)
    weight = next(folded.parameters())
    probe_bchw = torch.linspace(0, 1, 3 * 65 * 49, device=weight.device).view(PROBE)
    for conv, norm in _pairs(folded, probe_bchw.to(weight.dtype)):
        parent, name = _place(folded, conv)
        before = folded.get_submodule(conv)
        after = folded.get_submodule(norm)
        assert isinstance(before, nn.Conv2d)
        assert isinstance(after, nn.BatchNorm2d)
        setattr(parent, name, fuse_conv_bn_eval(before, after))
        parent, name = _place(folded, norm)
        setattr(parent, name, nn.Identity())
    expected_bkhw, got_bkhw = (net.coarse(probe_bchw.to(weight.dtype)) for net in (plain, folded))
    tolerance = 1e-3 * expected_bkhw.abs().max().item()
    close = torch.allclose(got_bkhw, expected_bkhw, rtol=1e-3, atol=tolerance)
    return folded if close else plain


def _pairs(model: Segmenter, probe_bchw: Tensor) -> list[tuple[str, str]]:
    """Names of convolutions and of the batch norms that take just what they give."""
    made: dict[int, str] = {}  # id of a tensor -> the convolution that gave it
    alive: list[Tensor] = []  # an id may come again once its tensor is gone
    pairs: list[tuple[str, str]] = []
    calls: Counter[str] = Counter()

    def look(name: str, module: nn.Module, given: Tensor, result: Tensor) -> None:
        calls[name] += 1
        if isinstance(module, nn.Conv2d):
            made[id(result)] = name
            alive.append(result)
        elif id(given) in made:
            pairs.append((made[id(given)], name))

    with _watching(model, look):
        model.coarse(probe_bchw)
    return [pair for pair in pairs if calls[pair[0]] == calls[pair[1]] == 1]


@contextmanager
def _watching(model: nn.Module, look: Look) -> Iterator[None]:
    hooks = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d):
            hooks.append(
                module.register_forward_hook(
                    lambda module, given, result, name=name: look(name, module, given[0], result)
                )
            )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _place(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    parent, _, last = name.rpartition(".")
    return model.get_submodule(parent), last
