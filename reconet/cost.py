"""What a network costs: parameters, multiply-adds (MACs), memory. Exact, and without running it:
everything happens on meta tensors, which have shapes but no values.

MACs are those of convolutions, linear layers and matrix products, each counted once; element-wise
work, norms, pooling and resizing are not products and not counted. (The paper counts otherwise:
cost_paper.py.)
"""

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from reconet.errors import RecipeError
from reconet.models.features import Features
from reconet.models.segmenter import Segmenter

# Fused attention on CPU is two products like everywhere else; torch's counter does not know it.
_FUSED: dict[Any, Any] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: (
        lambda query, key, value, *_, out_shape=None, **__: sdpa_flop_count(query, key, value)
    )
}
SMALLEST = 33  # two features a side at stride 32: batch norm needs more than one


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one part of a network, for one picture."""

    name: str
    params: int
    macs: int
    saved_bytes: int  # kept from the forward to the backward pass, in training


@dataclass(frozen=True, kw_only=True)
class ModelCost:
    parts: tuple[Cost, ...]  # in the order of the flow; "core" is a part of "context"
    total: Cost  # in use: without the auxiliary head, which is there in training only
    training_bytes: int  # saved_bytes with the auxiliary head and the logits it brings
    peak_bytes: int  # most that is alive at once in use, beside the weights


def model_cost(model: Segmenter, size: tuple[int, int]) -> ModelCost:
    """Cost of a network at an input of (height, width)."""
    if min(size) < SMALLEST:
        raise RecipeError(f"the input must be at least {SMALLEST} x {SMALLEST}, got {size}.")
    net = copy.deepcopy(model).to("meta")
    image_bchw = torch.empty(1, 3, *size, device="meta")
    macs, saved = count(net.train(), image_bchw)
    parts = {
        name: Cost(
            name=name,
            params=sum(parameters(module) for module, _ in modules),
            macs=sum(macs[path] for _, path in modules),
            saved_bytes=sum(saved[path] for _, path in modules),
        )
        for name, modules in _parts(net).items()
    }
    used = [part for name, part in parts.items() if name not in {"core", "aux"}]
    with torch.no_grad(), PeakMemory() as memory:
        net.eval()(image_bchw)
    return ModelCost(
        parts=tuple(parts.values()),
        total=Cost(
            name="total",
            params=sum(part.params for part in used),
            macs=sum(part.macs for part in used),
            saved_bytes=sum(part.saved_bytes for part in used),
        ),
        training_bytes=saved[""],
        peak_bytes=memory.peak_bytes,
    )


def module_cost(module: nn.Module, *inputs: Tensor | Features) -> Cost:
    """Cost of any module on meta tensors, e.g. a context's core on one feature map."""
    macs, saved = count(module, *inputs)
    return Cost(
        name=type(module).__name__, params=parameters(module), macs=macs[""], saved_bytes=saved[""]
    )


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def count(module: nn.Module, *inputs: Tensor | Features) -> tuple[Counter[str], Counter[str]]:
    """MACs and bytes saved for the backward pass, by the dotted path of each module ("" = all)."""
    root = type(module).__name__
    saved: Counter[str] = Counter()
    # Weights are there anyway, and a map that two layers save is there once. Storages are kept, so
    # that the address of one that is gone cannot pass for one that is new.
    seen = {t.untyped_storage()._cdata: t.untyped_storage() for t in _state(module)}
    counter = FlopCounterMode(display=False, custom_mapping=_FUSED)

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in seen:
            seen[storage._cdata] = storage
            saved.update({path: storage.nbytes() for path in counter.mod_tracker.parents})
        return tensor

    with counter, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        module(*inputs)
    macs = Counter({path: sum(by.values()) // 2 for path, by in counter.flop_counts.items()})
    return _relative(macs, root), _relative(saved, root)


class PeakMemory(TorchDispatchMode):
    """Within it: the most bytes of operator outputs alive at once, gradients included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive_bytes = self.peak_bytes = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        for tensor in tree_leaves((args, kwargs)):  # what came from outside is not counted
            if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in self._known:
                self._watch(tensor.untyped_storage(), 0)
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in self._known:
                self._watch(tensor.untyped_storage(), tensor.untyped_storage().nbytes())
        self.peak_bytes = max(self.peak_bytes, self.alive_bytes)
        return result

    def _watch(self, storage: torch.UntypedStorage, nbytes: int) -> None:
        self._known.add(storage._cdata)
        self.alive_bytes += nbytes
        finalize(storage, self._forget, storage._cdata, nbytes)

    def _forget(self, address: int, nbytes: int) -> None:
        self._known.discard(address)
        self.alive_bytes -= nbytes


def _parts(net: Segmenter) -> dict[str, list[tuple[nn.Module, str]]]:
    """The parts that a reader wants to see, each as modules with their paths."""
    backbone = net.backbone
    stem: list[tuple[nn.Module, str]] = [
        (backbone.conv1, "backbone.conv1"),
        (backbone.bn1, "backbone.bn1"),
        (backbone.relu, "backbone.relu"),
        (backbone.maxpool, "backbone.maxpool"),
    ]
    parts = {"stem": stem}
    for index, stage in enumerate(
        [backbone.layer1, backbone.layer2, backbone.layer3, backbone.layer4], start=1
    ):
        parts[f"layer{index}"] = [(stage, f"backbone.layer{index}")]
    parts["context"] = [(net.context, "context")]
    if net.context.core is not None:
        parts["core"] = [(net.context.core, "context.core")]
    parts["classify"] = [(net.classify, "classify")]
    if net.aux is not None:
        parts["aux"] = [(net.aux, "aux")]
    return parts


def _state(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


def _relative(counts: Counter[str], root: str) -> Counter[str]:
    """From the tracker's paths ("Segmenter.backbone.conv1", "Global") to the module's own."""
    return Counter(
        {
            "" if path == root else path.removeprefix(f"{root}."): number
            for path, number in counts.items()
            if path != "Global"
        }
    )
