"""What a run keeps to go on training: `last.pt`. Tensors, numbers, text; nothing in it is run."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from torch import Tensor

from reconet.engine.train import State
from reconet.errors import CheckpointError, first_line
from reconet.models.weights import read_tensors
from reconet.system.files import write_atomic
from reconet.system.run_files import BEST, LAST

CHUNK = 2**20

FORMAT = 1  # of last.pt


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What the log needs to go on as if nothing had happened."""

    best_score: float = -1.0  # of the validations so far
    loss_sum: float = 0.0  # since the last line of the log
    loss_count: int = 0
    validated: int = 0  # the step of the last one


def save_last(path: Path, state: State, progress: Progress) -> None:
    content = {
        "format": FORMAT,
        "step": state.step,
        "model": state.model.state_dict(),
        "optimizer": state.optimizer.state_dict(),
        "scaler": state.scaler.state_dict(),
        "ema": None if state.ema is None else state.ema.model.state_dict(),
        "progress": asdict(progress),
    }
    write_atomic(path, lambda file: torch.save(content, file))


def load_last(path: Path, state: State) -> Progress:
    """Put a saved state into `state`."""
    content = _read_last(path)
    try:
        state.model.load_state_dict(content["model"])
        state.optimizer.load_state_dict(content["optimizer"])
        state.scaler.load_state_dict(content["scaler"])
        if state.ema is not None:
            state.ema.model.load_state_dict(content["ema"])
        state.step = _count(content["step"])
        return Progress(**content["progress"])
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        reason = first_line(error)
        raise CheckpointError(f"{path} does not fit this recipe's network: {reason}") from error


def run_weights(source: Path) -> dict[str, Tensor]:
    """The best weights of a run, else its last ones."""
    path = source
    if source.is_dir():
        path = source / BEST if (source / BEST).is_file() else source / LAST
    if not path.is_file():
        raise CheckpointError(f"no weights at {source}; name a run directory or a file.")
    if path.suffix == ".pt":
        content = _read_last(path)
        weights: dict[str, Tensor] = content["ema"] or content["model"]
        return weights
    return read_tensors(path)


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"its step is {value!r}")
    return value


def _read_last(path: Path) -> dict[str, Any]:
    try:
        _check_sums(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a damaged file
        raise CheckpointError(
            f"cannot read {path}: it is damaged, or no file of tensors ({type(error).__name__})."
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{path} is no checkpoint of format {FORMAT}.")
    return content


def _check_sums(path: Path) -> None:
    """torch.save writes a checksum of every tensor, and torch.load does not look at it."""
    with ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.compress_type != 0:  # torch.save stores; anything else may be a zip bomb
                raise ValueError("it is compressed")
            with archive.open(entry) as file:
                while file.read(CHUNK):
                    pass
