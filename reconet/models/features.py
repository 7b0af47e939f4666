"""Types that the parts of a network pass to one another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor
from torch.utils import _pytree as pytree


@dataclass(frozen=True, kw_only=True)
class FeatureSpec:
    """The shape of a feature map, from which modules size their weights."""

    channels: int
    height: int  # at the training crop
    width: int


class Stages(NamedTuple):
    """Shapes of the maps of a backbone's four stages, Res-2 to Res-5."""

    c1: FeatureSpec
    c2: FeatureSpec
    c3: FeatureSpec
    c4: FeatureSpec


def stages_of(channels: Sequence[int], strides: Sequence[int], crop: tuple[int, int]) -> Stages:
    """Return the shapes of c1..c4 for an input of size `crop`."""
    specs = [
        FeatureSpec(channels=c, height=-(-crop[0] // s), width=-(-crop[1] // s))
        for c, s in zip(channels, strides, strict=True)
    ]
    return Stages(*specs)


class Features(NamedTuple):
    """The maps of a backbone's four stages."""

    c1: Tensor
    c2: Tensor
    c3: Tensor
    c4: Tensor


class Context(NamedTuple):
    """The map that a context passes to the classifier. `extra` feeds the context's own loss."""

    map_bdhw: Tensor
    extra: dict[str, Tensor]


class Logits(NamedTuple):
    """The output of a network, at the size of its input. `aux` and `extra` in training only."""

    main_bkhw: Tensor
    aux_bkhw: Tensor | None
    extra: dict[str, Tensor]


# torch.export.save stores the type that a program returns, under a name.
pytree._register_namedtuple(Logits, serialized_type_name="reconet.Logits")
