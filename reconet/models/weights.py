"""Load pretrained weights of a backbone, from the hub by timm's names or from a local file.

Only tensors are read: safetensors, or torch files in `weights_only` mode. No code in a file is run.
"""

import pickle
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from reconet.errors import CheckpointError, first_line
from reconet.models.backbone import Backbone
from reconet.models.hub import download
from reconet.system.readable import counted
from reconet.system.reading import WEIGHTS_BYTES, check_file

INSTEAD = (
    "set model.weights to a .safetensors or .pth file, or model.weights=null to begin with random "
    "weights, which needs many more images"
)
# What weights="imagenet" means. timm's "s" networks have the deep stem; "tv" are torchvision's.
IMAGENET = {
    ("resnet50", "deep"): "timm/resnet50s.gluon_in1k",
    ("resnet101", "deep"): "timm/resnet101s.gluon_in1k",
    ("resnet152", "deep"): "timm/resnet152s.gluon_in1k",
    ("resnet18", "plain"): "timm/resnet18.tv_in1k",
    ("resnet34", "plain"): "timm/resnet34.tv_in1k",
    ("resnet50", "plain"): "timm/resnet50.tv_in1k",
    ("resnet101", "plain"): "timm/resnet101.tv_in1k",
    ("resnet152", "plain"): "timm/resnet152.tv_in1k",
}


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What happened to every key of a weight file."""

    loaded: tuple[str, ...]
    ignored: tuple[str, ...]  # ImageNet's classifier, which a backbone does not need
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    other_shape: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return not (self.missing or self.unexpected or self.other_shape)


def load_backbone(net: Backbone, source: str) -> LoadReport:
    """Load weights into `net`, completely or not at all."""
    path = _find(net, source)
    state = {key.removeprefix("module."): value for key, value in read_tensors(path).items()}
    report = compare_weights(net.state_dict(), state)
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
    ignored = {key for key in given if key.startswith("fc.")} - own.keys()
    other_shape = {key for key in common if own[key].shape != given[key].shape}
    return LoadReport(
        loaded=tuple(sorted(common - other_shape)),
        ignored=tuple(sorted(ignored)),
        missing=tuple(sorted(needed - given.keys())),
        unexpected=tuple(sorted(given.keys() - own.keys() - ignored)),
        other_shape=tuple(sorted(other_shape)),
    )


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a .safetensors file, or of a torch file without running its pickle."""
    content = read_content(path)
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict) or not all(map(_is_named_tensor, content.items())):
        raise CheckpointError(f"{path} holds something else than named tensors.")
    return content


def read_content(path: Path) -> object:
    """Read all that a file of weights holds, without running its pickle."""
    try:
        check_file(path, limit=WEIGHTS_BYTES)
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        wanted = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f" ({wanted[1]})" if wanted else ""
        raise CheckpointError(
            f"{path} holds more than tensors{what}: it is damaged, or has code in it, which is "
            "never run."
        ) from error
    except OSError as error:
        reason = error.strerror or first_line(error)
        raise CheckpointError(f"cannot read the weights {path}: {reason}.") from error
    except Exception as error:  # both parsers raise nearly anything about bytes they do not expect
        reason = first_line(error)
        raise CheckpointError(f"cannot read the weights {path}: {reason}.") from error


def _is_named_tensor(item: tuple[object, object]) -> bool:
    name, value = item
    return isinstance(name, str) and isinstance(value, Tensor) and value.layout is torch.strided


def _find(net: Backbone, source: str) -> Path:
    path = Path(source)
    if path.is_file():
        return path
    local = path.is_dir() or path.suffix in {".safetensors", ".pth", ".pt"}
    if local or source.startswith(("/", ".", "~")):
        raise CheckpointError(f"no weight file {source}.")
    if source != "imagenet":
        hub_id = source if "/" in source else f"timm/{source}"
        return download(hub_id, "model.safetensors", instead=INSTEAD)
    if not net.stem:
        raise CheckpointError(
            f"there are no ImageNet weights for the backbone {net.name!r}; name a file."
        )
    if (net.name, net.stem) not in IMAGENET:
        raise CheckpointError(
            f"there are no ImageNet weights for {net.name} with a {net.stem} stem; "
            f"set model.stem={'plain' if net.stem == 'deep' else 'deep'}, or name a file."
        )
    return download(IMAGENET[net.name, net.stem], "model.safetensors", instead=INSTEAD)


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
