"""Count as the paper does, as far as its rule can be inferred, and by the uniform rule beside it.

The paper states no rule. Its numbers follow those of a layer profiler of the time. A layer object
counts what it does in its last call. Everything between layer objects (sums, resizing, products
written as functions) counts nothing. Without any free choice this gives the printed numbers of
ResNet-101, of the non-local block and of EMAU. It also leaves out the reconstruction itself, the
r*C*H*W products that RecoNet is about.

    convolution, linear     multiply-adds, and one per output for a bias
    matrix product          two per multiply-add
    batch norm              two per element
    ReLU                    one per element
    pooling                 one per element of its input
    resizing                one per element of its output

Memory is the sum of the outputs of all layers, four bytes per value. A GPU would not hold that.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from reconet.models.features import Features
from reconet.models.layers import Attention, Product

LAYERS = (
    Attention,
    Product,
    nn.AdaptiveAvgPool2d,
    nn.AvgPool2d,
    nn.BatchNorm2d,
    nn.Conv2d,
    nn.LeakyReLU,
    nn.Linear,
    nn.MaxPool2d,
    nn.ReLU,
    nn.Sigmoid,
)


@dataclass(frozen=True, kw_only=True)
class PaperCost:
    """The cost of a module by the paper's rule, for one image."""

    flops: int
    memory_bytes: int
    convolution_macs: int  # `flops` of convolutions only, without biases


def paper_cost(
    module: nn.Module, *inputs: Tensor | Features, as_layers: Collection[str] = ()
) -> PaperCost:
    """Count `module` on meta tensors by the paper's rule.

    Code bases differ in what they write as a layer object. `as_layers` names the functions of our
    code that count because the counted code may have had layers in their place.
    """
    calls: dict[object, tuple[int, int, int]] = {}
    functions = _Functions(frozenset(as_layers))

    def before(layer: nn.Module, args: tuple[Any, ...]) -> None:
        functions.within_layers += 1

    def after(layer: nn.Module, args: tuple[Tensor, ...], result: Tensor) -> None:
        functions.within_layers -= 1
        # Only the last call counts. A ReLU that a block uses three times counts once.
        macs = result.numel() * layer.weight[0].numel() if isinstance(layer, nn.Conv2d) else 0
        calls[layer] = *_layer_cost(layer, args, result), macs

    layers = [layer for layer in module.modules() if isinstance(layer, LAYERS)]
    hooks = [layer.register_forward_pre_hook(before) for layer in layers]
    hooks += [layer.register_forward_hook(after) for layer in layers]
    try:
        with torch.no_grad(), functions:
            module.eval()(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    total = Counter(functions.total)
    for flops, memory_bytes, macs in calls.values():
        total.update(flops=flops, memory_bytes=memory_bytes, macs=macs)
    return PaperCost(
        flops=total["flops"], memory_bytes=total["memory_bytes"], convolution_macs=total["macs"]
    )


class _Functions(TorchFunctionMode):
    """A mode that counts functions of some kinds where no layer calls them."""

    def __init__(self, kinds: frozenset[str]) -> None:
        super().__init__()
        self.kinds = kinds
        self.within_layers = 0
        self.total: Counter[str] = Counter()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        kind = FUNCTIONS.get(func)
        if kind in self.kinds and self.within_layers == 0:
            flops, memory_bytes = _function_cost(kind, args, result)
            self.total.update(flops=flops, memory_bytes=memory_bytes)
        return result


FUNCTIONS: dict[Callable[..., Any], str] = {
    torch.Tensor.__matmul__: "product",
    torch.Tensor.matmul: "product",
    torch.matmul: "product",
    F.scaled_dot_product_attention: "attention",
    F.adaptive_avg_pool2d: "pooling",
    F.interpolate: "resizing",
}


def _layer_cost(layer: nn.Module, args: tuple[Tensor, ...], y: Tensor) -> tuple[int, int]:
    """Return FLOPs, and bytes of the output."""
    x = args[0]
    match layer:
        case Attention():
            return _function_cost("attention", args, y)
        case Product():
            return _function_cost("product", args, y)
        case nn.Conv2d():
            flops = y.numel() * (layer.weight[0].numel() + (layer.bias is not None))
        case nn.Linear():
            flops = y.numel() * (layer.in_features + (layer.bias is not None))
        case nn.BatchNorm2d():
            flops = 2 * y.numel()
        case nn.ReLU() | nn.LeakyReLU():
            flops = y.numel()
        case nn.MaxPool2d() | nn.AvgPool2d() | nn.AdaptiveAvgPool2d():
            flops = x.numel()
        case _:  # Sigmoid: an output, and no FLOPs
            flops = 0
    return flops, 4 * y[0].numel()


def _function_cost(kind: str, args: tuple[Tensor, ...], y: Tensor) -> tuple[int, int]:
    x, y_bytes = args[0], 4 * y[0].numel()
    match kind:
        case "product":
            return 2 * y.numel() * x.shape[-1], y_bytes
        case "attention":  # two products, and the map between them that the paper's code had
            pairs = x.shape[:-1].numel() * args[1].shape[-2]
            return 2 * pairs * (x.shape[-1] + y.shape[-1]), 4 * pairs // len(x) + y_bytes
        case "pooling":
            return x.numel(), y_bytes
        case _:  # resizing
            return y.numel(), y_bytes
