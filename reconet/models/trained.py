"""Save and load a trained network: one safetensors file that says what it holds.

Its metadata is the record NetworkInfo: texts by name, in JSON. Files may come from strangers. No
code in them is run. A compact file has about a quarter of the bytes, and is read like any other:

    weights of large convolutions and linear layers   int8, with one fp16 scale per output channel
    other parameters                                  fp16
    buffers                                           as they are

Small layers are fp16: in a ResNet-50 they are 3 % of the weights and half of the error of int8.
Buffers hold the statistics of batch norm. In fp16 a channel with a large mean and a small variance
would be shifted, a variance above 65,504 would be infinite, and all of them are less than one
percent of a network.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import get_ident
from typing import Annotated, Any, Self, TypeVar

import torch
from pydantic import BaseModel, Field, Json, ValidationError, model_validator
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from reconet.errors import CheckpointError, RecipeError
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.weights import LoadReport, compare_weights, read_tensors
from reconet.recipes import dump_recipe, validate_recipe
from reconet.recipes.schema import Recipe
from reconet.recipes.values import HUB_PREFIX
from reconet.system.files import write_atomic
from reconet.system.own_code import explain_missing_import
from reconet.system.readable import counted
from reconet.system.reading import SETTINGS_BYTES, WEIGHTS_BYTES, check_file, read_file
from reconet.system.run_files import BEST, LAST
from reconet.system.tensor_files import tensor_bytes, with_metadata
from reconet.types import MAX_CLASSES, Palette

FORMAT = "1"
# Modules with a row for each class, by the beginnings of their names.
CLASSIFIERS = ("classify", "correct", "presence")
MOST_RUNS = 6  # that a message lists
AUXILIARY = "aux."  # beginning of the names of the auxiliary head, which only a training uses
DECODER = "decoder."  # of those of the decoder, which starts at zero
IN_PYTHON = (
    "Load them into a model in Python, then reconet.save(model, classes=[...], path=...) writes "
    "a file that every command takes (docs/python.md)"
)
LAYERS = (nn.Conv1d, nn.Conv2d, nn.Linear)
SMALL = 2**16  # weights of a layer. Those with more are int8
LARGEST = 127  # of int8. -128 is not used, so that a weight and its negative are alike
COMPACT, COMPACT_FORMAT = "compact", "1"  # metadata of a compact file
TEMPERATURE = "temperature"  # metadata of a calibrated network
SCALE = ":scale"  # end of a name. Names of weights have no colon
AS_THEY_ARE = (torch.float32, torch.int64)
Byte = Annotated[int, Field(ge=0, le=255)]
T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class NetworkInfo:
    """Recipe, classes, colours, and how good the network was at which step.

    `origin` is empty for a network that was trained here. For others it says where the weights are
    from: source, name, address, licence, and by which protocol they were scored.
    """

    recipe: Recipe
    classes: tuple[str, ...]
    palette: Palette
    step: int
    score: dict[str, float]
    imports: tuple[str, ...] = ()  # what --import named when it was made, for messages alone
    origin: dict[str, str] = field(default_factory=dict)
    temperature: float = 1.0  # that calibrates its confidences

    def texts(self) -> dict[str, str]:
        """Write the record as texts, the metadata of a file."""
        texts = {
            "format": FORMAT,
            "recipe": dump_recipe(self.recipe),
            "classes": json.dumps(self.classes),
            "palette": json.dumps(self.palette),
            "step": str(self.step),
            "score": json.dumps(self.score),
        }
        optional = {"imports": self.imports, "origin": self.origin}
        texts |= {name: json.dumps(value) for name, value in optional.items() if value}
        return texts if self.temperature == 1 else texts | {TEMPERATURE: repr(self.temperature)}

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], source: Path) -> Self:
        """Check the metadata of a file, which anybody may have written."""
        checked = dict(check_texts(_NetworkTexts, texts, source))
        values = {key: value for key, value in checked["recipe"].items() if key != "format"}
        try:
            return cls(**checked | {"recipe": validate_recipe(values, str(source))})
        except RecipeError as error:
            raise CheckpointError(str(error)) from error


class _NetworkTexts(BaseModel):
    recipe: Json[dict[str, Any]]
    classes: Json[Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_CLASSES)]]
    palette: Json[tuple[tuple[Byte, Byte, Byte], ...]]
    step: Annotated[int, Field(ge=0)]
    score: Json[dict[str, float]]
    imports: Json[tuple[str, ...]] = ()
    origin: Json[dict[str, str]] = Field(default_factory=dict)
    temperature: Annotated[float, Field(gt=0, le=1000)] = 1.0

    @model_validator(mode="after")
    def _one_colour_each(self) -> Self:
        if len(self.palette) != len(self.classes):
            colours = counted(len(self.palette), "colour")
            raise ValueError(f"{colours} for {counted(len(self.classes), 'class')}")
        return self


def check_texts(kind: type[T], texts: Mapping[str, str], source: Path) -> T:
    """Check texts by a schema, and say in one line what is missing or wrong."""
    refused = f"{source} does not say what network it is:"
    for name in kind.model_fields:
        if len(texts.get(name, "")) > SETTINGS_BYTES:
            raise CheckpointError(
                f"{refused} its {name} has {len(texts[name]):,} letters, far more than any "
                "network needs."
            )
    try:
        return kind.model_validate(texts)
    except ValidationError as error:
        problem = error.errors()[0]  # without the text itself, which may be long
        reason = problem["msg"].removeprefix("Value error, ")
        if problem["loc"]:
            how = "is missing" if problem["type"] == "missing" else "cannot be used"
            reason = f"its {problem['loc'][0]} {how}"
        raise CheckpointError(f"{refused} {reason}.") from error


@dataclass(frozen=True, kw_only=True)
class TrainedNetwork:
    """A network with its weights, and what one must know to use it."""

    model: Segmenter
    info: NetworkInfo


def save_trained(path: Path, trained: TrainedNetwork) -> None:
    """Write weights and metadata as one safetensors file."""
    tensors = {key: value.cpu().contiguous() for key, value in trained.model.state_dict().items()}
    data = tensor_bytes(tensors, trained.info.texts())
    write_atomic(path, lambda file: file.write(data))


def save_temperature(path: Path, temperature: float) -> None:
    """Write the temperature of a network into its file. Its weights stay as they are."""
    texts = _metadata(path) | {TEMPERATURE: repr(temperature)}
    data = with_metadata(read_file(path, limit=WEIGHTS_BYTES), texts)
    write_atomic(path, lambda file: file.write(data))


def save_compact(path: Path, trained: TrainedNetwork) -> None:
    """Write a network in a quarter of the bytes, without its auxiliary head."""
    recipe = trained.info.recipe
    model = recipe.model.model_copy(update={"aux": False})
    info = replace(trained.info, recipe=recipe.model_copy(update={"model": model}))
    weights = encode_weights(trained.model)
    kept = {key: value for key, value in weights.items() if not key.startswith(AUXILIARY)}
    data = tensor_bytes(kept, info.texts() | {COMPACT: COMPACT_FORMAT})
    write_atomic(path, lambda file: file.write(data))


def load_trained(source: Path) -> TrainedNetwork:
    """Load the network of a run directory, or of a .safetensors file that a run has written."""
    path = find_weights(source)
    info = read_info(path)
    model = info.recipe.model
    if model.backbone.startswith(HUB_PREFIX) and not (model.backbone_config or model.module):
        raise CheckpointError(  # it would make us look elsewhere, on the disk or on the hub
            f"{path} does not say what its backbone {model.backbone_title} is built from "
            "(model.backbone_config)."
        )
    state = read_weights(path)
    size = sum(value.numel() for value in state.values())
    with _no_larger_than(size, path), explain_missing_import(info.imports, path):
        net = build_model(info.recipe, len(info.classes), pretrained=False)
    put_weights(net, state, path)
    return TrainedNetwork(model=net.eval(), info=info)


def read_info(path: Path) -> NetworkInfo:
    """Read what a file says about its network, without its weights."""
    metadata = _metadata(path)
    if "format" not in metadata:
        raise CheckpointError(
            f"{path} holds weights alone: it does not say what network it is. {IN_PYTHON}."
        )
    if metadata["format"] != FORMAT:
        raise CheckpointError(
            f"{path} has the format {metadata['format']!r}, and this version reads {FORMAT}; "
            "a newer version of reconet may have written it."
        )
    return NetworkInfo.from_texts(metadata, path)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the weights of a file of any kind, compact or not, in the precision that they need."""
    tensors = read_tensors(path)
    version = _metadata(path).get(COMPACT) if path.suffix == ".safetensors" else None
    if version is None:
        return tensors
    if version != COMPACT_FORMAT:
        raise CheckpointError(f"{path} needs a newer reconet: its compact format is not known.")
    return decode_weights(tensors, path)


def find_weights(source: Path) -> Path:
    """Find the weights of a run directory. A .safetensors file is returned as it is."""
    if not source.exists():
        raise CheckpointError(f"no trained network at {source}: it does not exist.")
    path = source / BEST if source.is_dir() else source
    if path.suffix in {".pt", ".pth", ".bin", ".ckpt"} and path.name != LAST:
        raise CheckpointError(
            f"{source} is not a trained network: a file of torch has weights at most, not the "
            f"classes and the network that they belong to. {IN_PYTHON}."
        )
    if path.suffix != ".safetensors":
        raise CheckpointError(
            f"{source} is not a trained network: name the run directory or its {BEST}."
        )
    if not path.is_file():
        raise CheckpointError(
            f"no trained network at {path}; a run writes it at its validations.{_runs_in(source)}"
        )
    return path


def _runs_in(folder: Path) -> str:
    """List the runs of a folder of runs, for a message."""
    with suppress(OSError):
        runs = sorted(path.parent.name for path in folder.glob(f"*/{BEST}"))
        if runs:
            more = f", and {len(runs) - MOST_RUNS} more" if len(runs) > MOST_RUNS else ""
            named = ", ".join(str(folder / name) for name in runs[:MOST_RUNS])
            return f" The folder holds runs; name one of them: {named}{more}."
    return ""


@contextmanager
def _no_larger_than(weights: int, path: Path) -> Iterator[None]:
    """Refuse a recipe that asks for a far larger network than its file holds.

    It is refused before its memory is used. (A meta device would cost a second of imports.)
    """
    built, thread = 0, get_ident()

    def count(_module: object, _name: str, parameter: Tensor | None) -> None:
        nonlocal built
        if parameter is not None and get_ident() == thread and not parameter.is_meta:
            built += parameter.numel()
        if built > 2 * weights + 10**6:  # some parameters may be registered twice
            raise CheckpointError(
                f"{path} holds another network: its recipe asks for a larger one."
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def put_weights(
    model: Segmenter, state: Mapping[str, Tensor], source: Path, *, other_classes: bool = False
) -> LoadReport:
    """Load all weights of a network, which are finite numbers, or raise an error.

    With `other_classes`, classifiers of another shape stay as they are. So do an auxiliary head and
    a decoder that the file lacks.
    """
    own = model.state_dict()
    report = compare_weights(own, state)
    # Weights like context.core.presence.bias are those of a classifier.
    other_shape = [
        key
        for key in report.other_shape
        if not (other_classes and any(p.startswith(CLASSIFIERS) for p in key.split(".")))
    ]
    fresh = (AUXILIARY, DECODER) if other_classes else ()
    missing = [k for k in report.missing if not k.startswith(fresh)]
    if missing or report.unexpected or other_shape:
        first = [*missing, *report.unexpected, *other_shape][0]
        only_shapes = not missing and not report.unexpected
        hint = " Some contexts have weights of the size of data.crop." if only_shapes else ""
        raise CheckpointError(
            f"{source} holds another network: {counted(len(missing), 'weight')} missing, "
            f"{len(report.unexpected)} unexpected, {len(other_shape)} of another shape "
            f"(the first: {first}).{hint}"
        )
    for key in report.loaded:
        # Some networks are built with infinite buffers, such as the mask of an attention.
        if not _is_finite(state[key].to(own[key].dtype)) and _is_finite(own[key]):
            raise CheckpointError(
                f"{source} cannot be used: {key} holds values that are no finite numbers. A "
                "training that diverged leaves such weights; try a lower optim.lr."
            )
    model.load_state_dict({key: state[key] for key in report.loaded}, strict=False)
    return report


def _is_finite(value: Tensor) -> bool:
    """Tell whether all values are finite. A sum is fast to look at, but may overflow."""
    return bool(value.sum().isfinite()) or bool(value.isfinite().all())


def _metadata(path: Path) -> dict[str, str]:
    try:
        with safe_open(check_file(path, limit=WEIGHTS_BYTES), "pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(f"cannot read {path}: {reason}.") from error
    return metadata


def encode_weights(model: nn.Module) -> dict[str, Tensor]:
    """Encode all weights of a network, by name."""
    layers = {
        f"{name}.weight" for name, module in model.named_modules() if isinstance(module, LAYERS)
    }
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    encoded: dict[str, Tensor] = {}
    for key, value in model.state_dict().items():
        value = value.cpu().contiguous()
        if key in layers and value.numel() > SMALL:
            encoded[key], encoded[key + SCALE] = quantise_channels(value)
        else:
            encoded[key] = value.half() if key in parameters else value
        if not _is_finite(encoded[key]) or not _is_finite(encoded.get(key + SCALE, value)):
            raise CheckpointError(f"{key} holds values that are too large, or no numbers.")
    return encoded


def quantise_channels(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round a weight (o, ...) to int8. Return it with the step between two values, fp16 (o,).

    Every weight is within half a step of its value. The steps are rounded up for that, so that
    the largest weight of a channel is in range.
    """
    largest_o = weight.abs().flatten(1).amax(1)
    step_o = (largest_o / LARGEST).half()
    up_o = torch.nextafter(step_o, torch.tensor(torch.inf, dtype=torch.half))
    step_o = torch.where(LARGEST * step_o.float() < largest_o, up_o, step_o)
    divisor_o = step_o.float().where(step_o > 0, 1)  # a channel of zeros has a step of 0
    return (weight / _over_channels(divisor_o, weight)).round().to(torch.int8), step_o


def decode_weights(tensors: Mapping[str, Tensor], source: Path) -> dict[str, Tensor]:
    """Decode weights to fp32. `source` is the file that they come from, which may be damaged."""
    weights: dict[str, Tensor] = {}
    for key, value in tensors.items():
        if key.endswith(SCALE):
            if tensors.get(key.removesuffix(SCALE), value).dtype != torch.int8:
                raise CheckpointError(f"{source} is damaged: {key} belongs to no int8 weights.")
        elif value.dtype == torch.int8:
            weights[key] = _decode_channels(key, value, tensors.get(key + SCALE), source)
        elif value.dtype == torch.half and _is_finite(value):
            weights[key] = value.float()
        elif value.dtype in AS_THEY_ARE:
            weights[key] = value
        else:
            raise CheckpointError(f"{source} is damaged: {key} holds no numbers of a known type.")
    return weights


def _decode_channels(key: str, weight: Tensor, step_o: Tensor | None, source: Path) -> Tensor:
    if (
        step_o is None
        or weight.ndim < 2
        or step_o.shape != weight.shape[:1]
        or step_o.dtype != torch.half
        or not _is_finite(step_o)
    ):
        raise CheckpointError(
            f"{source} is damaged: {key} does not have one fp16 scale per channel."
        )
    return weight.float().mul_(_over_channels(step_o.float(), weight))


def _over_channels(step_o: Tensor, weight: Tensor) -> Tensor:
    return step_o.view(-1, *[1] * (weight.ndim - 1))
