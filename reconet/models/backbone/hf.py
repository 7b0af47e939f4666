"""Backbones of the package transformers, by hub id or folder: "hf:facebook/dinov2-small".

The package gives four maps of an image whose sides are multiples of a patch or window. This file
pads the image, cuts the maps, and finds out all that the contract asks for by running the network
on meta tensors, which have shapes but no values.

A network is built from its configuration: that of a known id, a folder, or the hub. Only fields of
the family's own configuration are kept, as plain values with bounds. A recipe carries them, so a
trained network is built again without the folder and without the hub. Nothing in a configuration
can name code.
"""

import json
import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import fields
from importlib.util import find_spec
from math import lcm
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn

from reconet.errors import CheckpointError, MissingExtraError, RecipeError, first_line, unknown
from reconet.models.backbone.base import MEAN, PUBLIC, STD, Backbone, PublicWeights
from reconet.models.backbone.families import FAMILIES, KNOWN, Family
from reconet.models.features import Features
from reconet.models.weights import download, download_if_there
from reconet.recipes.schema import Model, validation_message
from reconet.recipes.values import HUB_PREFIX, BackboneConfig
from reconet.system.reading import SETTINGS_BYTES, WEIGHTS_BYTES, check_file, read_text

CONFIG, PREPROCESSOR = "config.json", "preprocessor_config.json"
SAFE, INDEX, TORCH = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
FAMILY, LEVELS = "model_type", "out_indices"
IMAGE_MEAN, IMAGE_STD = "image_mean", "image_std"
INSTEAD = "name a folder that save_pretrained wrote: hf:./FOLDER"
# These ask for another package, or for weights, while they are built.
REFUSED = frozenset({"timm_backbone", "timm_wrapper"})
MOST_LAYERS = 1000
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
        settings = complete_hub_model(settings)
        self.model, self.name = settings, settings.backbone_title
        self.source = settings.backbone.removeprefix(HUB_PREFIX)
        self.settings: dict[str, Any] = dict(settings.backbone_config)
        self.family = FAMILIES.get(str(self.settings[FAMILY]), Family(title=""))
        self.dense = settings.output_stride if self.family.dilate else None
        self.input_mean = tuple(self.settings.get(IMAGE_MEAN, MEAN))
        self.input_std = tuple(self.settings.get(IMAGE_STD, STD))
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
        from transformers.utils import logging

        folder = weights_folder(self.source)
        kind: Any = type(self.net)
        logging.set_verbosity_error()  # its report would be many lines; ours is one
        logging.disable_progress_bar()
        try:
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
    if find_spec("transformers") is None:
        raise MissingExtraError("backbones", f"the backbone {settings.backbone_title!r}")
    source = settings.backbone.removeprefix(HUB_PREFIX)
    if settings.backbone_config or _is_folder(source):
        return
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", source):
        raise RecipeError(
            f"model.backbone={settings.backbone}: after hf: stands a hub id such as "
            "facebook/dinov2-small, or a folder such as ./dinov2."
        )


def _is_folder(source: str) -> bool:
    """Tell whether a source is a folder on this machine, not a hub id."""
    return source.startswith((".", "/", "~")) or (source != "" and Path(source).is_dir())


def read_config(source: str) -> dict[str, Any]:
    """Read what a known id, a folder or a hub id tells: family, sizes and normalisation."""
    if _is_folder(source):
        folder = Path(source).expanduser()
        if not (folder / CONFIG).is_file():
            raise CheckpointError(
                f"no backbone at {source}: there is no folder with a {CONFIG}, such as "
                "save_pretrained of transformers writes."
            )
        preprocessor = folder / PREPROCESSOR
        values = _read_json(folder / CONFIG, folder)
        more = _read_json(preprocessor, folder) if preprocessor.is_file() else {}
    elif source in KNOWN:
        values, more = {FAMILY: KNOWN[source].family, **KNOWN[source].config}, {}
    else:
        values = _read_json(download(source, CONFIG, instead=INSTEAD))
        found = download_if_there(source, PREPROCESSOR)
        more = _read_json(found) if found else {}
    return plain_config(values | _normalisation(more), source)


def plain_config(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Keep the fields of the family's configuration, complete, as plain and bounded values."""
    config = make_config(values, source)
    plain = {FAMILY: config.model_type}
    plain |= {key: getattr(config, key) for key in _own_fields(type(config))}
    plain |= {key: values[key] for key in (IMAGE_MEAN, IMAGE_STD) if key in values}
    levels = values.get(LEVELS)
    if isinstance(levels, list) and len(levels) == 4:  # else they were chosen for something else
        plain[LEVELS] = levels
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(BackboneConfig)
        return adapter.validate_python(json.loads(json.dumps(plain)))
    except (TypeError, ValueError) as error:
        reason = validation_message(error) if isinstance(error, ValidationError) else str(error)
        raise CheckpointError(f"{source} cannot be a backbone here: {reason}") from error


def make_config(values: Mapping[str, Any], source: str, levels: list[int] | None = None) -> Any:
    """Make the library's configuration of plain values, which anybody may have written."""
    from transformers.models.auto import CONFIG_MAPPING

    family = values.get(FAMILY)
    families = backbone_families()
    if not isinstance(family, str) or family not in families:
        raise unknown(f"family of backbone in {source}:", str(family)[:40], families)
    kind = CONFIG_MAPPING[family]
    own = {key: values[key] for key in _own_fields(kind) if key in values}
    # Layers are counted before they are built.
    depths = [own[key] for key in own if "layers" in key or "depth" in key]
    numbers = [one for value in depths for one in (value if isinstance(value, list) else [value])]
    if sum(one for one in numbers if isinstance(one, int)) > MOST_LAYERS:
        raise RecipeError(f"the configuration of {source} asks for too many layers.")
    try:
        return kind(**own, **({} if levels is None else {LEVELS: levels}))
    except Exception as error:  # the library checks types, and raises errors of many kinds
        reason = first_line(error).rstrip(".:")
        raise RecipeError(f"the configuration of {source} cannot be used: {reason}.") from error


def backbone_families() -> list[str]:
    """List the families that this release of transformers has backbones of."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_BACKBONE_MAPPING_NAMES

    return sorted(set(MODEL_FOR_BACKBONE_MAPPING_NAMES) - REFUSED)


def _own_fields(kind: type[Any]) -> list[str]:
    """List the fields of a family's configuration, without those of every configuration."""
    from transformers import PreTrainedConfig

    common = {field.name for field in fields(PreTrainedConfig)}
    names = [field.name for field in fields(kind)]
    return [name for name in names if name not in common and not name.startswith("_")]


def _normalisation(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return mean and standard deviation of a preprocessor, if it says them."""
    found = {name: values[name] for name in (IMAGE_MEAN, IMAGE_STD) if name in values}
    usable = all(
        isinstance(three, list)
        and len(three) == 3
        and all(isinstance(one, int | float) and 0 <= one <= 1 for one in three)
        for three in found.values()
    )
    return found if usable and all(found.get(IMAGE_STD, [1])) else {}


def _read_json(path: Path, within: Path | None = None) -> dict[str, Any]:
    """Read a JSON object of a file, which anybody may have written."""
    try:
        values = json.loads(read_text(path, limit=SETTINGS_BYTES, within=within))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"cannot read {path}: {first_line(error)}.") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"cannot read {path}: it is no configuration.")
    return values


def weights_folder(source: str) -> Path:
    """Return the folder that holds the weights of a source, downloaded if they are on the hub."""
    names = (SAFE, INDEX, TORCH)
    if _is_folder(source):
        folder = Path(source).expanduser()
        for name in names:
            if (folder / name).is_file():
                check_file(folder / name, limit=WEIGHTS_BYTES)
                return folder
        raise CheckpointError(f"no weights in {source}: there is neither {SAFE} nor {TORCH}.")
    found = next((path for name in names if (path := download_if_there(source, name))), None)
    if found is None:
        return download(source, SAFE, instead=INSTEAD).parent  # which says why it cannot
    if found.name == INDEX:
        parts = _read_json(found).get("weight_map", {})
        for name in sorted(set(parts.values()) if isinstance(parts, dict) else ()):
            download(source, str(name), instead=INSTEAD)
    return found.parent


def block_depths(names: Iterable[str], block: re.Pattern[str] = BLOCK) -> dict[str, int]:
    """Count the blocks of a network in the order of its parameters, from 1."""
    blocks: dict[str, int] = {}
    depths: dict[str, int] = {}
    for name in names:
        found = block.match(name)
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
