"""Describe how a public head is written in the names and options of one of our contexts."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

State = dict[str, Tensor]
Names = dict[str, str]  # layer in the public file -> layer in our network


@dataclass(frozen=True, kw_only=True)
class Head:
    """A public head: how to recognise it, what its layers are called here, and which options."""

    context: str
    mark: str  # a file with a key that begins like this has this head
    names: Names
    options: Callable[[Mapping[str, Tensor]], dict[str, Any]] = field(default=lambda state: {})
    adapt: Callable[[State], None] = field(default=lambda state: None)  # after renaming, in place


def units(names: Mapping[str, str]) -> Names:
    """Name the parts of mmcv's ConvModule, a convolution with norm, which is a Sequential here."""
    return {
        f"{public}.{part}": f"{ours}.{index}"
        for public, ours in names.items()
        for part, index in (("conv", 0), ("bn", 1))
    }


def numbered(names: Names, count: int) -> Names:
    """Write names with {i} in them for i = 0, 1, ..."""
    return {
        public.replace("{i}", str(i)): ours.replace("{i}", str(i))
        for public, ours in names.items()
        for i in range(count)
    }


def has(state: Iterable[str], beginning: str) -> bool:
    """Tell whether a key begins like this."""
    return any(key.startswith(beginning) for key in state)
