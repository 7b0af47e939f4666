"""Backbones of the package timm by name: "timm:convnext_tiny", "timm:vit_small_patch14_dinov2".

timm gives the maps (`features_only`), the weights and their normalisation. This file pads the image
to whole strides, takes the last four maps, and cuts them to the image. A plain vision transformer
gives four maps of one stride, from the quarters of its depth.
"""

import re
from importlib.util import find_spec
from math import lcm
from typing import Any

import torch
from torch import Tensor

from reconet.errors import CheckpointError, MissingExtraError, RecipeError, first_line, unknown
from reconet.models.backbone.base import Backbone, PublicWeights
from reconet.models.backbone.hf import block_depths, cut, pad_to_multiple, unused_parameters
from reconet.models.features import Features
from reconet.recipes.schema import Model

PREFIX = "timm:"
# A block: blocks.3, stages.1.blocks.2, layer2.0, s1.b2.
BLOCK = re.compile(r"^(?:.*?\.)?[a-z_]+\d*(?:[._](?:blocks?\.)?[a-z]?\d+)+(?=\.)")
# Each is tried in turn: not every network of timm knows every option.
BY_TURNS: tuple[tuple[str, ...], ...] = (("output_stride",), ("dynamic_img_size",), ())


class TimmBackbone(Backbone):
    """A network of timm as a backbone with four maps."""

    def __init__(self, settings: Model) -> None:
        super().__init__()
        self.name = settings.backbone
        self.net, self.made_by = _make_net(self.name, settings.output_stride)
        config = getattr(self.net, "pretrained_cfg", None) or self.net.default_cfg
        self.input_mean, self.input_std = tuple(config["mean"]), tuple(config["std"])
        self.channels = list(self.net.feature_info.channels())[-4:]
        self.strides = list(self.net.feature_info.reduction())[-4:]
        if len(self.channels) < 4:
            raise RecipeError(f"{self.name} has fewer than four stages, and c1 to c4 need four.")
        self.last = getattr(self.net, "output_fmt", None) == "NHWC"
        self.multiple = lcm(*self.strides)
        unused, side = self._unused()
        for name, parameter in self.net.named_parameters():
            parameter.requires_grad_(name not in unused)
        self.has_side_layers = side != unused

    def forward(self, image_bchw: Tensor) -> Features:
        height, width = image_bchw.shape[2], image_bchw.shape[3]
        maps = self.net(pad_to_multiple(image_bchw, self.multiple))[-4:]
        if self.last:
            maps = [x_bhwc.permute(0, 3, 1, 2) for x_bhwc in maps]
        return Features(
            *(
                cut(x_bchw, (height + stride - 1) // stride, (width + stride - 1) // stride)
                for x_bchw, stride in zip(maps, self.strides, strict=True)
            )
        )

    def parameter_depths(self) -> dict[str, int]:
        """Count the blocks: what is before the first is 0, what is after the last is as deep."""
        return block_depths((name for name, _ in self.named_parameters()), BLOCK)

    def public_weights(self) -> PublicWeights:
        """Fetch the weights by timm's own means: its cache, or the hub."""
        import timm

        source = self.name.removeprefix(PREFIX)
        try:
            net = timm.create_model(source, pretrained=True, features_only=True, **self.made_by)
        except Exception as error:  # timm and the hub raise errors of many kinds
            reason = first_line(error).rstrip(".")
            raise CheckpointError(f"cannot get the weights of {self.name}: {reason}.") from error
        return PublicWeights({f"net.{name}": value for name, value in net.state_dict().items()})

    def licence(self, weights: str | None) -> str:
        """Name the licence that timm states for the weights."""
        return str((getattr(self.net, "pretrained_cfg", None) or {}).get("license") or "")

    def _unused(self) -> tuple[set[str], set[str]]:
        """Name the parameters that no map depends on, and those that c4 does not."""
        side = 2 * self.multiple
        self.net.eval()  # no statistics move
        with torch.enable_grad():
            try:
                maps = self(torch.zeros(1, 3, side, side))
            except Exception as error:
                reason = first_line(error).rstrip(".")
                raise RecipeError(f"{self.name} takes no images of any size: {reason}.") from error
            self.net.train()
            return unused_parameters(self.net, maps), unused_parameters(self.net, maps[-1:])


def check_timm_name(settings: Model) -> None:
    """Raise if timm is missing, or knows no network of this name."""
    if find_spec("timm") is None:
        raise MissingExtraError("timm", f"the backbone {settings.backbone!r}")
    import timm

    name = settings.backbone.removeprefix(PREFIX)
    if not timm.is_model(name.split(".")[0]):
        raise unknown("backbone", settings.backbone, [PREFIX + one for one in timm.list_models()])


def _make_net(name: str, output_stride: int) -> tuple[Any, dict[str, Any]]:
    """Build a network of timm, and say with which options."""
    import timm

    source, known = name.removeprefix(PREFIX), {"output_stride": output_stride}
    problem: Exception = NotImplementedError()
    for options in BY_TURNS:
        made_by: dict[str, Any] = {option: known.get(option, True) for option in options}
        try:
            net = timm.create_model(source, features_only=True, **made_by)
            if len(net.feature_info.channels()) < 4 and hasattr(net.model, "blocks"):
                depth = len(net.model.blocks)
                made_by["out_indices"] = [round(depth * part / 4) - 1 for part in range(1, 5)]
                net = timm.create_model(source, features_only=True, **made_by)
            return net, made_by
        except (TypeError, AssertionError, NotImplementedError) as error:
            problem = error
        except Exception as error:
            problem = error
            break
    raise RecipeError(f"{name} cannot be a backbone: {first_line(problem)}.") from problem
