"""The contract of a backbone: an image goes in, four maps come out, from fine to coarse.

A backbone also says what the rest of the package has to know about it: channels and strides of its
maps, which normalisation its weights want, where its public weights are and whose they are, and
how deep each of its parameters lies.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor, nn

from reconet.errors import CheckpointError, RecipeError
from reconet.models.features import Features, Stages, stages_of

# Of ImageNet, for RGB in 0..1. Nearly all public weights were trained with them.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
PUBLIC = ("imagenet", "pretrained")  # values of model.weights that name a backbone's own weights


class PublicWeights(NamedTuple):
    """Public weights of a backbone, by the names of its own parameters."""

    tensors: dict[str, Tensor]
    without: tuple[str, ...] = ()  # parameters that they lack, and that start as they are


class Backbone(nn.Module):
    """The contract of a backbone: image_b3hw, normalised, any size -> four maps, fine to coarse.

    A subclass sets `channels` and `strides`, each of the four maps c1 to c4. A map of stride s has
    ceil(height / s) rows and ceil(width / s) columns. Contexts read c4, some read c1 or c3 too.
    A backbone that needs sizes of its own pads inside, and cuts its maps to those of the image.

    All else has a default, under names that a backbone of a user hardly has already. A parameter
    that no map depends on has requires_grad False.
    """

    name: str = "own"  # for messages
    stem: str = ""
    channels: Sequence[int]
    strides: Sequence[int]
    input_mean: Sequence[float] = MEAN  # of the images that the weights were trained on: RGB, 0..1
    input_std: Sequence[float] = STD
    has_side_layers: bool = False  # parameters that only c1, c2 or c3 depends on
    first_modules: Sequence[str] = ()  # names of the first layers: most sensitive to int8
    not_exported: str = ""  # why there can be no graph of it for any size; "" if there can

    def forward(self, image_bchw: Tensor) -> Features:
        raise NotImplementedError

    def first_stages(self, image_bchw: Tensor, count: int) -> Features:
        """Compute the first `count` of c1..c4. The others may be empty, where that saves time."""
        return Features(*self(image_bchw))

    def stages(self, crop: tuple[int, int]) -> Stages:
        """Return the shapes of c1..c4 for an input of size `crop`."""
        return stages_of(self.channels, self.strides, crop)

    def cost_parts(self) -> Mapping[str, Sequence[str]]:
        """Return the parts whose cost is counted one by one: name -> names of its modules."""
        return {}

    def parameter_depths(self) -> Mapping[str, int]:
        """Return how deep parameters lie, by name: 0 for the first layer. By default all are 0."""
        return {name: 0 for name, _ in self.named_parameters()}

    def cache_facts(self) -> Mapping[str, object]:
        """Return what changes the maps but is in no weight and no layer, for cached features."""
        return {}

    def public_weights(self) -> PublicWeights:
        """Read the public weights of this backbone, from the hub or its cache."""
        raise CheckpointError(
            f"there are no public weights for the backbone {self.name!r}; name a file."
        )

    def licence(self, weights: str | None) -> str:
        """Name the licence of weights, for the card of a shared network. "" if it is not known."""
        return ""


def check_backbone(backbone: nn.Module) -> None:
    """Raise an error that explains the contract, if a backbone of a user does not keep it."""
    four = [getattr(backbone, name, ()) for name in ("channels", "strides")]
    if isinstance(backbone, Backbone) and all(len(values) == 4 for values in four):
        return
    raise RecipeError(
        f"{type(backbone).__name__} is no backbone: subclass reconet.Backbone, set `channels` and "
        "`strides` to four numbers each, and return four maps (docs/python.md)."
    )
