"""What the parts of the network hand to one another."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor
from torch.utils import _pytree as pytree


@dataclass(frozen=True, kw_only=True)
class FeatureSpec:
    """Shape of a feature map before any tensor exists, so modules can size their weights."""

    channels: int
    height: int  # at the training crop; modules that work at any size do not read it
    width: int


class Stages(NamedTuple):
    """What the four stages of a backbone (Res-2 to Res-5) promise."""

    c1: FeatureSpec
    c2: FeatureSpec
    c3: FeatureSpec
    c4: FeatureSpec


class Features(NamedTuple):
    """What the four stages of a backbone deliver."""

    c1: Tensor
    c2: Tensor
    c3: Tensor
    c4: Tensor


class Context(NamedTuple):
    """What a context module delivers to the classifier; `extra` feeds its own loss, if any."""

    map_bdhw: Tensor
    extra: dict[str, Tensor]


class Logits(NamedTuple):
    """What the network delivers, at the size of its input; `aux` and `extra` in training only."""

    main_bkhw: Tensor
    aux_bkhw: Tensor | None
    extra: dict[str, Tensor]


# torch.export.save writes down what a program returns, and needs a name for it.
pytree._register_namedtuple(Logits, serialized_type_name="reconet.Logits")
