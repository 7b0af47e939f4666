"""Types for contexts that show their attention, as `reconet explain` draws it.

A network runs once while the inputs of all parts of its context are recorded. The context then
computes its attention again from them, with its own layers. Contexts that compare positions show
where one point of the image looks.
"""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor, nn

MOST_MAPS = 9  # of a set of maps
NamedMap = tuple[str, Tensor]
Point = tuple[float, float]  # x, y as parts of width and height


class AttentionMaps(NamedTuple):
    """Maps and gates of one image, and a sentence or two about them."""

    description: str
    maps: tuple[NamedMap, ...] = ()  # map_hw, of any resolution
    gates: tuple[NamedMap, ...] = ()  # gate_n, of channels or the like
    from_point: bool = False  # the maps show where the point looks


class RecordedPass(NamedTuple):
    """One image's pass through a context: what went into each of its parts."""

    inputs: dict[nn.Module, list[Tensor]]
    point: Point
    classes: Sequence[str]

    def input_of(self, part: nn.Module, call: int = 0) -> Tensor:
        return self.inputs[part][call]

    def cell_of_point(self, size: Sequence[int]) -> tuple[int, int]:
        """Return row and column of the point in a map of (height, width)."""
        x, y = self.point
        return min(size[0] - 1, int(y * size[0])), min(size[1] - 1, int(x * size[1]))


def largest_maps(name: str, map_khw: Tensor, size_k: Tensor) -> tuple[NamedMap, ...]:
    """Select the few maps of a set that are largest by `size_k`, largest first."""
    return tuple((f"{name} {index}", map_khw[index]) for index in largest_indices(size_k))


def largest_indices(size_k: Tensor) -> list[int]:
    return [int(index) for index in size_k.argsort(descending=True)[:MOST_MAPS]]


def point_weights(query_d: Tensor, key_dm: Tensor, scale: float | None = None) -> Tensor:
    """Compute softmax_m(scale * query . key_m). As in torch, scale is 1 / sqrt(d) unless given."""
    scale = len(query_d) ** -0.5 if scale is None else scale
    return (scale * (query_d @ key_dm)).softmax(0)
