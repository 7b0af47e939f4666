"""Save and load a trained network: one safetensors file with its NetworkInfo as metadata.

A compact file is a quarter as large (compact.py). It is read like any other.
Files may come from strangers. No code in them is run.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import get_ident

from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook

from reconet.errors import CheckpointError
from reconet.models.compact import decode_weights, encode_weights
from reconet.models.network_info import FORMAT, NetworkInfo
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.weight_files import read_tensors
from reconet.models.weights import LoadReport, compare_weights
from reconet.recipes.schema import Model
from reconet.recipes.values import HUB_PREFIX
from reconet.system.files import write_atomic
from reconet.system.own_code import explain_missing_import
from reconet.system.readable import counted
from reconet.system.reading import WEIGHTS_BYTES, check_file
from reconet.system.run_files import BEST, LAST
from reconet.system.tensor_files import tensor_bytes

# Modules with a row for each class, by the beginnings of their names.
CLASSIFIERS = ("classify", "correct", "presence")
MOST_RUNS = 6  # that a message lists
AUXILIARY = "aux."  # beginning of the names of the auxiliary head, which only a training uses
DECODER = "decoder."  # of those of the decoder, which starts at zero
COMPACT, COMPACT_FORMAT = "compact", "1"  # metadata of a compact file
IN_PYTHON = (
    "Load them into a model in Python, then reconet.save(model, classes=[...], path=...) writes "
    "a file that every command takes (docs/python.md)"
)


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
    _check_carries_backbone(info.recipe.model, path)
    state = read_weights(path)
    size = sum(value.numel() for value in state.values())
    with _no_larger_than(size, path), explain_missing_import(info.imports, path):
        model = build_model(info.recipe, len(info.classes), pretrained=False)
    put_weights(model, state, path)
    return TrainedNetwork(model=model.eval(), info=info)


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


def _check_carries_backbone(model: Model, path: Path) -> None:
    """Refuse a file that would make us look elsewhere, on the disk or on the hub."""
    if model.backbone.startswith(HUB_PREFIX) and not (model.backbone_config or model.module):
        raise CheckpointError(
            f"{path} does not say what its backbone {model.backbone_title} is built from "
            "(model.backbone_config)."
        )


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
    if path.suffix != ".safetensors":
        raise CheckpointError(f"{source} is not a trained network: {_instead(source)}.")
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


def _instead(source: Path) -> str:
    """Say what a file of torch is, and what to do with it."""
    if source.suffix not in {".pt", ".pth", ".bin", ".ckpt"} or source.name == LAST:
        return f"name the run directory or its {BEST}"
    return (
        "a file of torch has weights at most, not the classes and the network that they belong "
        f"to. {IN_PYTHON}"
    )


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
    other_shape = [k for k in report.other_shape if not (other_classes and _classifies(k))]
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


def _classifies(key: str) -> bool:
    """Tell whether weights like context.core.presence.bias are those of a classifier."""
    return any(part.startswith(CLASSIFIERS) for part in key.split("."))


def _metadata(path: Path) -> dict[str, str]:
    try:
        with safe_open(check_file(path, limit=WEIGHTS_BYTES), "pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}.") from error
    except SafetensorError as error:
        raise CheckpointError(f"cannot read {path}: {error}.") from error
    return metadata
