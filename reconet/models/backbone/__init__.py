"""Backbones, by the name that recipes use.

base.py       the contract: Backbone
resnet.py     ResNet with dilation
mobilenet.py  MobileNetV2 with dilation
hf.py         backbones of the package transformers, by hub id or folder: "hf:facebook/dinov2-small"
families.py   what is special about each family of them, and some public ones
timm.py       backbones of the package timm, by name: "timm:convnext_tiny"

To add one, write a file here and add one line to BACKBONES. tests/models/backbone checks it.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from reconet.errors import CheckpointError, RecipeError, pick
from reconet.models.backbone import mobilenet, resnet
from reconet.models.backbone.base import PUBLIC, Backbone, PublicWeights, check_backbone
from reconet.models.backbone.hf import (
    HubBackbone,
    check_hub_name,
    complete_hub_model,
    weights_folder,
)
from reconet.models.backbone.mobilenet import MOBILENET, MobileNetV2
from reconet.models.backbone.resnet import RESNETS, Bottleneck, ResNet, Stem, StrideOn
from reconet.models.backbone.timm import TimmBackbone, check_timm_name
from reconet.models.weights import LoadReport, compare_weights, download, read_tensors
from reconet.recipes.schema import Model
from reconet.recipes.values import HUB_PREFIX
from reconet.system.readable import counted

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
    "find_weights",
    "load_backbone",
    "make_backbone",
]

HUB, TIMM = "hf", "timm"  # "hf:owner/name" is the backbone `hf` with a hub id

# Each makes a backbone from the settings `model` of a recipe, which it may ignore.
BACKBONES: dict[str, Callable[[Model], Backbone]] = {
    **dict.fromkeys(RESNETS, resnet.make_resnet),
    MOBILENET: mobilenet.make_mobilenet,
    HUB: HubBackbone,
    TIMM: TimmBackbone,
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
    if _table_name(settings) == TIMM:
        check_timm_name(settings)


def complete_model(settings: Model) -> Model:
    """Write what a hub id or folder tells about a backbone into the settings.

    They then mean the same where these files are not.
    """
    return complete_hub_model(settings) if _table_name(settings) == HUB else settings


def find_weights(settings: Model) -> None:
    """Raise if the weights that a backbone starts from cannot be had, before a network is built.

    The public weights of a user's own backbone are known only when it is built.
    """
    if settings.weights is None or settings.module is not None:
        return
    if settings.weights not in PUBLIC:
        _find_file(settings.weights)
    elif _table_name(settings) == HUB:
        weights_folder(settings.backbone.removeprefix(HUB_PREFIX))
    elif settings.backbone in RESNETS:
        resnet.imagenet_file(settings.backbone, settings.stem)
    elif settings.backbone == MOBILENET:
        download(mobilenet.IMAGENET)


def load_backbone(net: Backbone, source: str) -> LoadReport:
    """Load weights into `net`, completely or not at all."""
    if source in PUBLIC:
        found = net.public_weights()
    else:
        found = PublicWeights(read_tensors(_find_file(source)))
    state = {key.removeprefix("module."): value for key, value in found.tensors.items()}
    own = {key: value for key, value in net.state_dict().items() if key not in found.without}
    report = compare_weights(own, state)
    if report.problems:
        raise CheckpointError(f"{source} does not fit {net.name}: {_explain(report, net, state)}.")
    broken = [key for key in report.loaded if not _is_number(state[key])]
    if broken:
        raise CheckpointError(f"{source}: {broken[0]} holds values that are not finite numbers.")
    net.load_state_dict({key: state[key] for key in report.loaded}, strict=False)
    return report


def _find_file(source: str) -> Path:
    path = Path(source)
    if path.is_file():
        return path
    local = path.is_dir() or path.suffix in {".safetensors", ".pth", ".pt"}
    if local or source.startswith(("/", ".", "~")):
        raise CheckpointError(f"no weight file {source}.")
    return download(source if "/" in source else f"timm/{source}")


def _is_number(value: Tensor) -> bool:
    # Floating and finite, or a counter.
    if value.is_floating_point():
        return value.device.type != "meta" and bool(value.isfinite().all())
    return value.ndim == 0 and not value.is_complex()


def _explain(report: LoadReport, net: Backbone, state: Mapping[str, Tensor]) -> str:
    """Say which keys do not fit: every one if they are few, else how many in each stage."""
    parts = []
    for kind, keys in report.problems.items():
        stages = sorted(Counter(key.split(".")[0] for key in keys).items())
        listed = keys if len(keys) <= 6 else [f"{stage}: {count}" for stage, count in stages]
        parts.append(f"{counted(len(keys), 'key')} {kind} ({', '.join(listed)})")
    stem = "plain" if "conv1.weight" in state else "deep" if "conv1.0.weight" in state else None
    hint = f"; its stem is {stem}: set model.stem={stem}" if stem not in {None, net.stem} else ""
    return "; ".join(parts) + hint


def _table_name(settings: Model) -> str:
    name, colon, _ = settings.backbone.partition(":")
    return name if colon and name in (HUB, TIMM) else settings.backbone
