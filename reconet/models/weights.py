"""Load pretrained weights of a backbone: its public ones, others of timm, or a local file."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from reconet.errors import CheckpointError
from reconet.models.backbone import PUBLIC, Backbone, PublicWeights, find_public_weights
from reconet.models.hub import download
from reconet.models.weight_files import WEIGHT_FILE_INSTEAD, read_tensors
from reconet.recipes.schema import Model
from reconet.system.readable import counted

CLASSIFIERS = ("fc.", "classifier.")  # of ImageNet, which a backbone does not need


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What happened to every key of a weight file."""

    loaded: tuple[str, ...]
    ignored: tuple[str, ...]  # the classifier
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    other_shape: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return not (self.missing or self.unexpected or self.other_shape)


def find_weights(settings: Model) -> None:
    """Raise if the weights that a backbone starts from cannot be had.

    It takes a second or two. To build the network first would take longer.
    """
    if settings.weights is None or settings.module is not None:
        return
    if settings.weights in PUBLIC:
        find_public_weights(settings)
    else:
        _find(settings.weights)


def load_backbone(net: Backbone, source: str) -> LoadReport:
    """Load weights into `net`, completely or not at all."""
    found = net.public_weights() if source in PUBLIC else PublicWeights(read_tensors(_find(source)))
    state = {key.removeprefix("module."): value for key, value in found.tensors.items()}
    own = {key: value for key, value in net.state_dict().items() if key not in found.without}
    report = compare_weights(own, state)
    if not report.fits:
        raise CheckpointError(f"{source} does not fit {net.name}: {_explain(report, net, state)}.")
    broken = [key for key in report.loaded if not _is_number(state[key])]
    if broken:
        raise CheckpointError(f"{source}: {broken[0]} holds values that are not finite numbers.")
    net.load_state_dict({key: state[key] for key in report.loaded}, strict=False)
    return report


def compare_weights(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> LoadReport:
    """Compare names and shapes of a network's own weights with those of a file."""
    # Converted networks often lack batch norm's step counter. With a fixed momentum it is unused.
    needed = {key for key in own if not key.endswith("num_batches_tracked")}
    common = own.keys() & given.keys()
    ignored = {key for key in given if key.startswith(CLASSIFIERS)} - own.keys()
    other_shape = {key for key in common if own[key].shape != given[key].shape}
    return LoadReport(
        loaded=tuple(sorted(common - other_shape)),
        ignored=tuple(sorted(ignored)),
        missing=tuple(sorted(needed - given.keys())),
        unexpected=tuple(sorted(given.keys() - own.keys() - ignored)),
        other_shape=tuple(sorted(other_shape)),
    )


def _find(source: str) -> Path:
    path = Path(source)
    if path.is_file():
        return path
    local = path.is_dir() or path.suffix in {".safetensors", ".pth", ".pt"}
    if local or source.startswith(("/", ".", "~")):
        raise CheckpointError(f"no weight file {source}.")
    hub_id = source if "/" in source else f"timm/{source}"
    return download(hub_id, "model.safetensors", instead=WEIGHT_FILE_INSTEAD)


def _is_number(value: Tensor) -> bool:
    # Floating and finite, or a counter.
    if value.is_floating_point():
        return value.device.type != "meta" and bool(value.isfinite().all())
    return value.ndim == 0 and not value.is_complex()


def _explain(report: LoadReport, net: Backbone, state: Mapping[str, Tensor]) -> str:
    kinds = {
        "missing": report.missing,
        "unexpected": report.unexpected,
        "of another shape": report.other_shape,
    }
    parts = [
        f"{counted(len(keys), 'key')} {kind} ({_listed(keys)})"
        for kind, keys in kinds.items()
        if keys
    ]
    stem = "plain" if "conv1.weight" in state else "deep" if "conv1.0.weight" in state else None
    hint = f"; its stem is {stem}: set model.stem={stem}" if stem not in {None, net.stem} else ""
    return "; ".join(parts) + hint


def _listed(keys: tuple[str, ...]) -> str:
    """List every key if they are few, else how many there are in each stage."""
    if len(keys) <= 6:
        return ", ".join(keys)
    return ", ".join(
        f"{stage}: {n}" for stage, n in sorted(Counter(k.split(".")[0] for k in keys).items())
    )
