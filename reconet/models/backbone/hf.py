"""Backbones of the package transformers, by hub id or folder: "hf:facebook/dinov2-small".

The package gives four maps of an image whose sides are multiples of a patch or window. This file
pads the image, cuts the maps, and finds out all that the contract asks for by running the network
on meta tensors, which have shapes but no values.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from math import lcm
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reconet.errors import CheckpointError, RecipeError, first_line
from reconet.models.backbone.base import MEAN, PUBLIC, STD, Backbone, PublicWeights
from reconet.models.backbone.config import (
    FAMILY,
    INSTEAD,
    LEVELS,
    NORMALISATION,
    is_folder,
    make_config,
    read_config,
    read_json,
    require_transformers,
)
from reconet.models.backbone.families import FAMILIES, Family
from reconet.models.backbone.known import KNOWN
from reconet.models.features import Features
from reconet.models.hub import download, download_if_there
from reconet.recipes.schema import Model
from reconet.recipes.values import HUB_PREFIX
from reconet.system.reading import WEIGHTS_BYTES, check_file

SAFE, INDEX, TORCH = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
NEW_NORMS = "hidden_states_norms."  # the library puts them behind the stages; no file has them
MOST_BUFFERS = 10**8  # numbers. More would be a configuration that was made to do harm
PROBE_PATCHES = 32  # a side of the image that shapes are found with
# A block of a network: the longest beginning of a name that ends in numbered layers.
BLOCK = re.compile(
    r"^(?:.*?\.)?(?:layers?|blocks?|stages?)\.\d+(?:\.(?:layers?|blocks?)\.\d+)*(?=\.)"
)


class Shapes(NamedTuple):
    """What a network's maps are like, and which parameters none of them depends on."""

    levels: list[int]  # the stages that c1..c4 are
    channels: list[int]
    strides: list[int]
    unused: set[str]
    side: set[str]  # those that c4 does not depend on


class HubBackbone(Backbone):
    """A backbone of transformers, with four maps at the strides that its family has."""

    def __init__(self, settings: Model) -> None:
        super().__init__()
        self.model, self.name = settings, settings.backbone_title
        self.source = settings.backbone.removeprefix(HUB_PREFIX)
        self.settings: dict[str, Any] = dict(settings.backbone_config)
        self.family = FAMILIES.get(str(self.settings[FAMILY]), Family(title=""))
        self.dense = settings.output_stride if self.family.dilate else None
        self.input_mean = tuple(self.settings.get(NORMALISATION["mean"], MEAN))
        self.input_std = tuple(self.settings.get(NORMALISATION["std"], STD))
        shapes = self._find_shapes()
        self.channels, self.strides = shapes.channels, shapes.strides
        self.multiple = lcm(*shapes.strides)
        self.net = self._make_net(shapes.levels)
        for name, parameter in self.net.named_parameters():
            parameter.requires_grad_(name not in shapes.unused)
        self.unused = {f"net.{name}" for name in shapes.unused}
        self.has_side_layers = shapes.side != shapes.unused
        modules = [name for name, _ in self.named_modules()]
        self.first_modules = [name for name in modules if name.endswith("embeddings")][:1]

    def forward(self, image_bchw: Tensor) -> Features:
        height, width = image_bchw.shape[2], image_bchw.shape[3]
        maps = self.net(pad_to_multiple(image_bchw, self.multiple)).feature_maps
        return Features(
            *(
                cut(x_bchw, (height + stride - 1) // stride, (width + stride - 1) // stride)
                for x_bchw, stride in zip(maps, self.strides, strict=True)
            )
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Send settings and weights: the library's hooks cannot be sent to another process."""
        trained = [parameter.requires_grad for parameter in self.parameters()]
        return _build_again, (self.model, self.state_dict(), trained, self.training)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy as every module does, which is faster than to build it again."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(deepcopy(self.__dict__, memo))
        return copied

    def parameter_depths(self) -> dict[str, int]:
        """Count the blocks: what is before the first is 0, what is after the last is as deep."""
        return block_depths(name for name, _ in self.named_parameters())

    def cache_facts(self) -> dict[str, object]:
        """Return the configuration: many of its values are not in the weights."""
        return {"config": self.settings, "dense": self.dense}

    def public_weights(self) -> PublicWeights:
        """Read the weights of the folder or hub id. Their names are translated by the library."""
        folder = _weights_folder(self.source)
        kind: Any = type(self.net)
        try:
            with _quiet():
                net, report = kind.from_pretrained(
                    folder,
                    config=make_config(self.settings, self.source, self.net.config.out_indices),
                    local_files_only=True,
                    weights_only=True,
                    dtype=torch.float32,
                    output_loading_info=True,
                )
        except Exception as error:  # the library raises errors of many kinds about strange files
            reason = first_line(error).rstrip(".")
            raise CheckpointError(f"cannot read the weights of {self.source}: {reason}.") from error
        missing = {f"net.{name}" for name in report["missing_keys"]}
        new = {name for name in missing if name.startswith(f"net.{NEW_NORMS}")} | self.unused
        if missing - new:
            first = min(missing - new)
            raise CheckpointError(
                f"the weights of {self.source} do not fit {self.family.title or self.name}: "
                f"{len(missing - new)} are missing (the first: {first})."
            )
        state = {f"net.{name}": value for name, value in net.state_dict().items()}
        tensors = {name: value for name, value in state.items() if name not in missing}
        return PublicWeights(tensors, without=tuple(sorted(missing)))

    def licence(self, weights: str | None) -> str:
        """Name the licence of a known id."""
        return KNOWN[self.source].licence if weights in PUBLIC and self.source in KNOWN else ""

    def _make_net(self, levels: list[int]) -> Any:
        from transformers import AutoBackbone

        net = AutoBackbone.from_config(make_config(self.settings, self.source, levels))
        if self.family.dilate is not None and self.dense is not None:
            self.family.dilate(net, self.dense)
        if self.family.adapt is not None:
            self.family.adapt(net)
        return net

    def _find_shapes(self) -> Shapes:
        """Run the network on meta tensors: first all stages, to choose four, then those."""
        with torch.device("meta"), torch.enable_grad():
            try:
                given = self.settings.get(LEVELS)
                return self._run_on_meta(given or self._choose_levels())
            except RecipeError:
                raise
            except Exception as error:  # a strange configuration fails anywhere in the library
                reason = first_line(error).rstrip(".")
                raise RecipeError(f"{self.name} cannot be a backbone here: {reason}.") from error

    def _choose_levels(self) -> list[int]:
        names = make_config(self.settings, self.source).stage_names
        first = int(names[0] == "stem")  # nearly all families have it
        stages = len(names) - first
        if stages == 4:
            return list(range(first, first + 4))
        strides = self._run_on_meta(list(range(first, len(names)))).strides
        if len(set(strides)) == 1:  # a plain transformer: at every quarter of its depth
            levels = [first + max(1, round(stages * part / 4)) - 1 for part in range(1, 5)]
        else:
            ends = [i for i in range(stages) if i + 1 == stages or strides[i] != strides[i + 1]]
            levels = [end + first for end in ends[-4:]]
        if len(set(levels)) != 4:
            raise RecipeError(f"{self.name} has fewer than four stages, and c1 to c4 need four.")
        return levels

    def _run_on_meta(self, levels: list[int]) -> Shapes:
        net = self._make_net(levels)
        buffers = sum(buffer.numel() for buffer in net.buffers())
        if buffers > MOST_BUFFERS:
            raise RecipeError(f"{self.name} asks for {buffers:,} numbers beside its weights.")
        patch = self.settings.get("patch_size", 4)
        side = PROBE_PATCHES * (patch if isinstance(patch, int) else 4)
        maps = net.eval()(torch.empty(1, 3, side, side)).feature_maps
        if any(x_bchw.ndim != 4 or side % x_bchw.shape[2] for x_bchw in maps):
            raise RecipeError(f"{self.name} gives no maps of whole strides.")
        return Shapes(
            levels,
            [x_bchw.shape[1] for x_bchw in maps],
            [side // x_bchw.shape[2] for x_bchw in maps],
            unused_parameters(net, maps),
            unused_parameters(net, maps[-1:]),
        )


def pad_to_multiple(x_bchw: Tensor, multiple: int) -> Tensor:
    """Pad a map by zeros on the right and below, to multiples of a number.

    In a graph for any size nothing may ask how much is missing. There rows and columns are picked
    from a map with one row and one column of zeros more.
    """
    height, width = x_bchw.shape[2], x_bchw.shape[3]
    if not torch.compiler.is_exporting():
        return F.pad(x_bchw, (0, -width % multiple, 0, -height % multiple))
    x_bchw = F.pad(x_bchw, (0, 1, 0, 1))
    for axis, side in ((2, height), (3, width)):
        wanted = (side + multiple - 1) // multiple * multiple
        index = torch.arange(wanted, device=x_bchw.device).clamp(max=side)
        x_bchw = x_bchw.index_select(axis, index)
    return x_bchw


def cut(x_bchw: Tensor, height: int, width: int) -> Tensor:
    """Return the first rows and columns of a map.

    (In ONNX a negative number is divided towards zero, so callers do not write -(-a // b).)
    """
    if not torch.compiler.is_exporting():
        return x_bchw[:, :, :height, :width]
    for axis, side in ((2, height), (3, width)):
        x_bchw = x_bchw.index_select(axis, torch.arange(side, device=x_bchw.device))
    return x_bchw


def make_hub_backbone(settings: Model) -> HubBackbone:
    """Make a backbone of transformers, with random weights."""
    return HubBackbone(complete_hub_model(settings))


def _build_again(
    settings: Model, state: dict[str, Tensor], trained: list[bool], training: bool
) -> HubBackbone:
    with torch.random.fork_rng(devices=()):
        backbone = HubBackbone(settings)
    backbone.load_state_dict(state)
    for parameter, learns in zip(backbone.parameters(), trained, strict=True):
        parameter.requires_grad_(learns)
    return backbone.train(training)


def complete_hub_model(settings: Model) -> Model:
    """Write the configuration of a folder or hub id into the settings, unless it is there."""
    if settings.backbone_config:
        return settings
    check_hub_name(settings)
    config = read_config(settings.backbone.removeprefix(HUB_PREFIX))
    return settings.model_copy(update={"backbone_config": config})


def check_hub_name(settings: Model) -> None:
    """Raise if the package is missing, or the name is neither a folder nor a hub id."""
    require_transformers(f"the backbone {settings.backbone_title!r}")
    source = settings.backbone.removeprefix(HUB_PREFIX)
    if settings.backbone_config or is_folder(source):
        return
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", source):
        raise RecipeError(
            f"model.backbone={settings.backbone}: after hf: stands a hub id such as "
            "facebook/dinov2-small, or a folder such as ./dinov2."
        )


def find_hub_weights(settings: Model) -> None:
    """Raise if the weights of the folder or hub id cannot be had."""
    _weights_folder(settings.backbone.removeprefix(HUB_PREFIX))


def block_depths(names: Iterable[str]) -> dict[str, int]:
    """Count the blocks of a network in the order of its parameters, from 1."""
    blocks: dict[str, int] = {}
    depths: dict[str, int] = {}
    for name in names:
        found = BLOCK.match(name)
        depths[name] = blocks.setdefault(found[0], len(blocks) + 1) if found else len(blocks)
    return depths


def unused_parameters(net: nn.Module, maps: Iterable[Tensor]) -> set[str]:
    """Name the parameters that no map depends on, by walking back from the maps."""
    nodes: list[Any] = [x_bchw.grad_fn for x_bchw in maps]
    seen, reached = set(nodes), set[int]()
    while nodes:
        node = nodes.pop()
        if hasattr(node, "variable"):
            reached.add(id(node.variable))
        for parent, _ in () if node is None else node.next_functions:
            if parent is not None and parent not in seen:
                seen.add(parent)
                nodes.append(parent)
    return {name for name, one in net.named_parameters() if id(one) not in reached}


def _weights_folder(source: str) -> Path:
    """Return the folder that holds the weights of a source, downloaded if they are on the hub."""
    if not is_folder(source):
        for name in (SAFE, INDEX, TORCH):
            found = download_if_there(source, name)
            if found is not None:
                return _with_shards(source, found)
        return download(source, SAFE, instead=INSTEAD).parent  # which says why it cannot
    folder = Path(source).expanduser()
    for name in (SAFE, INDEX, TORCH):
        if (folder / name).is_file():
            check_file(folder / name, limit=WEIGHTS_BYTES)
            return folder
    raise CheckpointError(f"no weights in {source}: there is neither {SAFE} nor {TORCH}.")


def _with_shards(hub_id: str, path: Path) -> Path:
    """Download the parts that an index lists, and return the folder of all."""
    if path.name == INDEX:
        listed = read_json(path).get("weight_map", {})
        for name in sorted(set(listed.values()) if isinstance(listed, dict) else ()):
            download(hub_id, str(name), instead=INSTEAD)
    return path.parent


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the bars and the reports of the library. Errors are still raised."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
