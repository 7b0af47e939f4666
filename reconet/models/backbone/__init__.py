"""Backbones, by the name that recipes use.

base.py       the contract: Backbone
resnet.py     ResNet with dilation
mobilenet.py  MobileNetV2 with dilation
hf.py         backbones of the package transformers, by hub id or folder: "hf:facebook/dinov2-small"
families.py   what is special about each family of them
windows.py    shifted windows of Swin, for exports
config.py     read, check and bound the configuration that one is built from
known.py      configurations and licences of some public ones

To add one, write a file here and add one line to BACKBONES. tests/models/backbone checks it.
"""

from collections.abc import Callable

from reconet.errors import RecipeError, pick
from reconet.models.backbone.base import PUBLIC, Backbone, PublicWeights, check_backbone
from reconet.models.backbone.hf import (
    check_hub_name,
    complete_hub_model,
    find_hub_weights,
    make_hub_backbone,
)
from reconet.models.backbone.mobilenet import (
    MOBILENET,
    MobileNetV2,
    find_mobilenet_weights,
    make_mobilenet,
)
from reconet.models.backbone.resnet import (
    RESNETS,
    Bottleneck,
    ResNet,
    Stem,
    StrideOn,
    find_resnet_weights,
    make_resnet,
)
from reconet.recipes.schema import Model

__all__ = [
    "BACKBONES",
    "PUBLIC",
    "RESNETS",
    "Backbone",
    "Bottleneck",
    "MobileNetV2",
    "PublicWeights",
    "ResNet",
    "Stem",
    "StrideOn",
    "check_backbone",
    "check_backbone_name",
    "complete_model",
    "find_public_weights",
    "make_backbone",
]

HUB = "hf"  # "hf:owner/name" is the backbone `hf` with a hub id

# Each makes a backbone from the settings `model` of a recipe, which it may ignore.
BACKBONES: dict[str, Callable[[Model], Backbone]] = {
    **dict.fromkeys(RESNETS, make_resnet),
    MOBILENET: make_mobilenet,
    HUB: make_hub_backbone,
}


def make_backbone(settings: Model) -> Backbone:
    """Make the backbone of a recipe, with random weights."""
    backbone = BACKBONES[_table_name(settings)](settings)
    check_backbone(backbone)
    return backbone


def check_backbone_name(settings: Model) -> None:
    """Raise if there is no backbone of this name, or the package that it needs is missing."""
    name = settings.backbone
    if "/" in name and ":" not in name:
        raise RecipeError(f"unknown backbone {name!r}. Did you mean 'hf:{name}'?")
    pick(BACKBONES, _table_name(settings), "backbone")
    if _table_name(settings) == HUB:
        check_hub_name(settings)


def complete_model(settings: Model) -> Model:
    """Write what a hub id or folder tells about a backbone into the settings.

    They then mean the same where these files are not.
    """
    return complete_hub_model(settings) if _table_name(settings) == HUB else settings


def find_public_weights(settings: Model) -> None:
    """Raise if the public weights cannot be had, before a network is built.

    Those of a user's own backbone are known only when it is built.
    """
    if _table_name(settings) == HUB:
        find_hub_weights(settings)
    elif settings.backbone in RESNETS:
        find_resnet_weights(settings)
    elif settings.backbone == MOBILENET:
        find_mobilenet_weights()


def _table_name(settings: Model) -> str:
    name, colon, _ = settings.backbone.partition(":")
    return name if colon and name == HUB else settings.backbone
