"""Count what a network costs: parameters, multiply-adds (MACs) and memory.

The counts are exact. Nothing is computed: the network runs on meta tensors, which have shapes but
no values.

MACs are the products of convolutions, linear layers and matrix products, each counted once.
Element-wise work, norms, pooling and resizing are not counted. The paper counts differently: see
cost/paper.py.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterable
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
from reconet.models.losses import segmentation_loss
from reconet.models.segmenter import Segmenter, build_model
from reconet.recipes.overrides import with_context
from reconet.recipes.schema import Recipe

# Fused attention is two products. torch's counter does not know the operator of the CPU.
_FUSED: dict[Any, Any] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: (
        lambda query, key, value, *_, out_shape=None, **__: sdpa_flop_count(query, key, value)
    )
}
SMALLEST_INPUT = 33  # two features a side at stride 32: batch norm needs more than one


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one part of a network, for one image."""

    name: str
    params: int
    macs: int
    saved_bytes: int  # kept for the backward pass in training


@dataclass(frozen=True, kw_only=True)
class ModelCost:
    """The cost of a whole network and of its parts."""

    parts: tuple[Cost, ...]  # from input to output; "core" is a part of "context"
    total: Cost  # of inference: without the auxiliary head, which only training needs
    training_bytes: int  # saved by a training step, auxiliary head and loss included
    peak_bytes: int  # most memory alive at once in inference, without the weights


def model_cost(model: Segmenter, size: tuple[int, int]) -> ModelCost:
    """Count the cost of a network for one image of (height, width)."""
    if min(size) < SMALLEST_INPUT:
        raise RecipeError(
            f"the input must be at least {SMALLEST_INPUT} x {SMALLEST_INPUT}, got {size}."
        )
    net = copy.deepcopy(model).to("meta")
    image_bchw = torch.empty(1, 3, *size, device="meta")
    label_bhw = torch.zeros(1, *size, dtype=torch.uint8, device="meta")
    macs, saved = count(
        net.train(), image_bchw, then=lambda logits: segmentation_loss(logits, label_bhw)
    )

    def cost(name: str, paths: Iterable[str]) -> Cost:
        return Cost(
            name=name,
            params=sum(count_parameters(net.get_submodule(path)) for path in paths),
            macs=sum(macs[path] for path in paths),
            saved_bytes=sum(saved[path] for path in paths),
        )

    parts = _parts(net)
    with torch.no_grad(), PeakMemory() as memory:
        net.eval()(image_bchw)
    in_use = [path for name in parts.keys() - {"core", "aux"} for path in parts[name]]
    return ModelCost(
        parts=tuple(cost(name, paths) for name, paths in parts.items()),
        total=cost("total", in_use),
        training_bytes=saved[""],
        peak_bytes=memory.peak_bytes(),
    )


def recipe_costs(
    recipe: Recipe, contexts: Iterable[str], size: tuple[int, int], num_classes: int
) -> dict[str, ModelCost]:
    """Count the cost of a recipe's network with each of several contexts."""
    costs = {}
    for name in contexts:
        with torch.device("meta"):
            built = build_model(with_context(recipe, name), num_classes, pretrained=False)
        costs[name] = model_cost(built, size)
    return costs


def module_cost(module: nn.Module, *inputs: Tensor | Features) -> Cost:
    """Count the cost of any module, such as a context's core, on real or meta tensors."""
    macs, saved = count(module, *inputs)
    return Cost(
        name=type(module).__name__,
        params=count_parameters(module),
        macs=macs[""],
        saved_bytes=saved[""],
    )


def count_parameters(module: nn.Module) -> int:
    """Return the number of parameters of a module."""
    return sum(p.numel() for p in module.parameters())


def count(
    module: nn.Module, *inputs: Tensor | Features, then: Callable[[Any], object] | None = None
) -> tuple[Counter[str], Counter[str]]:
    """Count MACs and saved bytes by the dotted path of each module ("" is the whole).

    Saved bytes are those that the forward pass keeps for the backward pass. `then` is called with
    the module's result. Its cost counts into "" only.
    """
    root = type(module).__name__
    saved: Counter[str] = Counter()
    # Weights do not count, and a map that two layers save counts once. Holding the storages keeps
    # their addresses from being used again.
    state = [*module.parameters(), *module.buffers()]
    counted = {t.untyped_storage()._cdata: t.untyped_storage() for t in state}
    counter = FlopCounterMode(display=False, custom_mapping=_FUSED)

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in counted:
            counted[storage._cdata] = storage
            saved.update({path: storage.nbytes() for path in counter.mod_tracker.parents})
        return tensor

    with counter, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = module(*inputs)
        if then is not None:
            then(result)
    macs = Counter({path: sum(by.values()) // 2 for path, by in counter.flop_counts.items()})
    return _relative(macs, root), _relative(saved, root)


class PeakMemory(TorchDispatchMode):
    """A context manager that tracks the bytes of operator outputs alive, gradients included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._changes: list[tuple[int, int]] = []  # (number of a storage, change in bytes)
        self._numbers: dict[int, int] = {}  # numbers of the storages alive, by address

    def peak_bytes(self, without: Iterable[Tensor] = ()) -> int:
        """Return the most bytes alive at once, leaving out the storages of some tensors."""
        excluded = {self._numbers.get(t.untyped_storage()._cdata) for t in without}
        alive = peak = 0
        for number, change in self._changes:
            if number not in excluded:
                alive += change
                peak = max(peak, alive)
        return peak

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        for tensor in tree_leaves((args, kwargs)):  # inputs from outside do not count
            if isinstance(tensor, Tensor):
                self._watch(tensor.untyped_storage(), 0)
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._watch(tensor.untyped_storage(), tensor.untyped_storage().nbytes())
        return result

    def _watch(self, storage: torch.UntypedStorage, nbytes: int) -> None:
        if storage._cdata in self._numbers:
            return
        number = len(self._changes)
        self._numbers[storage._cdata] = number
        self._changes.append((number, nbytes))
        finalize(storage, self._forget, storage._cdata, number, nbytes)

    def _forget(self, address: int, number: int, nbytes: int) -> None:
        del self._numbers[address]
        self._changes.append((number, -nbytes))


def _parts(net: Segmenter) -> dict[str, list[str]]:
    """Return the parts of a network by name, each as the paths of its modules."""
    parts = {
        part: [f"backbone.{name}" for name in names]
        for part, names in net.backbone.cost_parts().items()
    } or {"backbone": ["backbone"]}
    optional = {
        "project": (net.project, "project"),
        "context": (net.context, "context"),
        "core": (net.context.core, "context.core"),
        "classify": (net.classify, "classify"),
        "decoder": (net.decoder, "decoder"),
        "aux": (net.aux, "aux"),
    }
    return parts | {name: [path] for name, (one, path) in optional.items() if one is not None}


def _relative(counts: Counter[str], root: str) -> Counter[str]:
    """Translate the tracker's paths ("Segmenter.backbone.conv1", "Global") to the module's own."""
    return Counter(
        {
            "" if path == "Global" else path.removeprefix(f"{root}."): number
            for path, number in counts.items()
            if path != root
        }
    )
