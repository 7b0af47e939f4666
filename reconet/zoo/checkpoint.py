"""Read the file of a public network. No code in it is run."""

import re
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from reconet.errors import CheckpointError
from reconet.models.weight_files import read_content

STRIDES = {"1,2,1,1"}
# Of the backbone at output stride 8, and of the convolutions of DeepLab.
DILATIONS = {"1,1,2,4", "1,12,24,36"}


@dataclass(frozen=True, kw_only=True)
class PublicFile:
    """The tensors of a file, and what its training wrote about itself."""

    state: dict[str, Tensor]
    classes: tuple[str, ...] = ()  # if it names them
    config: str = ""  # the training's settings as text, if it has them


def read_public_file(path: Path) -> PublicFile:
    """Read tensors, class names and settings of a .pth or .safetensors file."""
    if not path.is_file():
        raise CheckpointError(f"there is no file {path}.")
    content = read_content(path)
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds something else than named tensors.")
    state = content.get("state_dict", content.get("model", content))
    if not isinstance(state, dict) or not state or not all(map(_is_named_tensor, state.items())):
        raise CheckpointError(f"{path} holds something else than named tensors.")
    # Tensors may be views that pretend to be larger than what the file holds of them.
    if sum(value.nbytes for value in state.values()) > path.stat().st_size:
        raise CheckpointError(f"{path} is damaged: its tensors are larger than the file.")
    meta = content.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    return PublicFile(
        state={key.removeprefix("module."): value for key, value in state.items()},
        classes=_names(meta.get("CLASSES")),
        config=meta["config"] if isinstance(meta.get("config"), str) else "",
    )


def check_config(config: str) -> None:
    """Refuse settings that do not show in the weights and that networks here do not have."""
    if re.search(r"align_corners\s*=\s*True", config):
        raise CheckpointError(
            "it was trained with align_corners=True, by which networks here do not resize."
        )
    if re.search(r"multi_grid\s*=", config):
        raise CheckpointError("its backbone has a multi-grid, which backbones here do not have.")
    for setting, known in (("strides", STRIDES), ("dilations", DILATIONS)):
        for value in re.findall(rf"\b{setting}\s*=\s*\(([\d,\s]*)\)", config):
            if re.sub(r"\s", "", value).rstrip(",") not in known:
                raise CheckpointError(
                    f"it was trained with {setting}=({value}). Only output stride 8 is converted."
                )


def _is_named_tensor(item: tuple[object, object]) -> bool:
    return isinstance(item[0], str) and isinstance(item[1], Tensor)


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return tuple(value)
    return ()
