"""What a watched pass through a context leaves, and what is to be shown of it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

Named = tuple[str, Tensor]
Point = tuple[float, float]  # x, y as parts of width and height


class Look(NamedTuple):
    words: str
    maps: tuple[Named, ...] = ()
    gates: tuple[Named, ...] = ()
    from_point: bool = False


class Watched(NamedTuple):
    """A context, all that went into its parts in one pass, and what to ask."""

    context: Any
    inputs: dict[nn.Module, list[Tensor]]
    point: Point
    classes: Sequence[str]

    def into(self, part: nn.Module, call: int = 0) -> Tensor:
        return self.inputs[part][call]

    def place(self, size: Sequence[int]) -> tuple[int, int]:
        """Row and column of the point in a map of (height, width)."""
        x, y = self.point
        return min(size[0] - 1, int(y * size[0])), min(size[1] - 1, int(x * size[1]))
