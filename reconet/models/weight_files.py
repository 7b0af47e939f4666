"""Read files of weights, from strangers too.

Only tensors are read: safetensors, or torch files in `weights_only` mode. No code in a file is run.
"""

import pickle
import re
import warnings
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from reconet.errors import CheckpointError, first_line
from reconet.system.reading import WEIGHTS_BYTES, check_file
from reconet.system.tensor_files import check_sum

WEIGHT_FILE_INSTEAD = (
    "set model.weights to a .safetensors or .pth file, or model.weights=null to begin with random "
    "weights, which needs many more images"
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
            check_sum(path)
            return load_file(path)
        with warnings.catch_warnings(action="ignore"):  # about tensors that are refused here
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
