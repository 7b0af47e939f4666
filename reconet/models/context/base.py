"""The contract of a context: everything between backbone and classifier.

Each method keeps its own published head, and all of them meet the same classifier.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from reconet.models.context.low_rank import LowRankHead
from reconet.models.features import Context, Features, Stages

MOST_MAPS = 9  # of a set of maps
NamedMap = tuple[str, Tensor]
Point = tuple[float, float]  # x, y as parts of width and height


@dataclass(frozen=True, kw_only=True)
class ContextInfo:
    """All that the rest of the package has to know about a context."""

    title: str
    paper: str  # 'Author et al., "Title", VENUE YEAR', or "" for a context without a paper
    idea: str  # one sentence
    stages: tuple[str, ...] = ("c4",)  # the maps of the backbone that it reads by default
    reach: str = "whole map"  # what one position of the core's result depends on
    not_in_onnx: str = ""  # why ONNX, and hence OpenVINO, cannot express it; "" if they can
    options: Mapping[str, str] = field(default_factory=dict)  # name -> what it does, in one line
    removed: Mapping[str, str] = field(default_factory=dict)  # option -> when and why it went


class AttentionMaps(NamedTuple):
    """Maps and gates of one image, as `reconet explain` draws them, and a sentence or two.

    Contexts that compare positions show where one point of the image looks.
    """

    description: str
    maps: tuple[NamedMap, ...] = ()  # map_hw, of any resolution
    gates: tuple[NamedMap, ...] = ()  # gate_n, of channels or the like
    from_point: bool = False  # the maps show where the point looks


class RecordedPass(NamedTuple):
    """One image's pass through a context: what went into each of its parts.

    The context computes its attention again from that, with its own layers.
    """

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


class ContextModule(nn.Module):
    """Features c1..c4 -> Context. A subclass adds its own named, typed options to __init__.

    It works at any height and width, with one image in training, on CPU, in bf16, and under
    torch.export. tests/models/context/test_contract.py checks that for every entry of CONTEXTS.
    """

    info: ClassVar[ContextInfo]
    gives_logits: ClassVar[bool] = False  # its map is logits already, so no classifier follows
    out_channels: int
    core: nn.Module | None

    def __init__(self, stages: Stages, *, num_classes: int) -> None:
        super().__init__()
        # The 512-channel module alone, x_bchw -> y_bchw: what `bench module` and `cost --paper`
        # measure. None where the method has no such part. (Not a class attribute: that would hide
        # a submodule of the same name.)
        self.core = None

    @property
    def stages_read(self) -> tuple[str, ...]:
        """Return the maps of the backbone that it reads. Some options ask for more of them."""
        return self.info.stages

    def forward(self, features: Features) -> Context:
        raise NotImplementedError

    def loss(self, extra: dict[str, Tensor], label_bhw: Tensor) -> Tensor:
        """Return the method's own loss on what its forward left in `extra`. By default it is 0."""
        return torch.zeros((), device=label_bhw.device)

    def after_step(self) -> None:
        """Update state that moves without a gradient. Called after every optimiser step."""

    def attention_maps(self, recorded: RecordedPass) -> AttentionMaps | None:
        """Return the attention of one image, to be drawn. By default there is none."""
        return None

    def low_rank_head(self) -> LowRankHead | None:
        """Return the layers around a core that is made of ranks. By default there are none."""
        return None
