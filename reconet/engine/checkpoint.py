"""Save and load `last.pt`, the state that a training resumes from, and keep the best network.

last.pt holds tensors, numbers and text. Loading it never runs code from it.
"""

import shlex
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from torch import Tensor

from reconet.engine.loop import State
from reconet.errors import CheckpointError, first_line
from reconet.models.trained import TrainedNetwork, read_info, read_weights, save_trained
from reconet.system.files import write_atomic
from reconet.system.progress import SILENT, Progress
from reconet.system.reading import WEIGHTS_BYTES, check_file
from reconet.system.run_files import BEST, LAST, RECIPE
from reconet.system.tensor_files import check_sum

CHUNK = 2**20

FORMAT = 1  # of last.pt


@dataclass(frozen=True, kw_only=True)
class LogState:
    """What the log needs to continue after a resume as if nothing had happened."""

    best_score: float = -1.0  # of the validations so far
    loss_sum: float = 0.0  # since the last line of the log
    loss_count: int = 0
    validated: int = 0  # the step of the last validation
    stale: int = 0  # validations since the best score

    def add(self, losses: list[float]) -> "LogState":
        """Add the losses of some steps, one after another: rounding depends on the order."""
        total = self.loss_sum
        for loss in losses:
            total += loss
        return replace(self, loss_sum=total, loss_count=self.loss_count + len(losses))


def save_last(path: Path, state: State, log_state: LogState) -> None:
    """Save everything that a resumed training needs."""
    content = {
        "format": FORMAT,
        "step": state.step,
        "model": state.model.state_dict(),
        "optimizer": state.optimizer.state_dict(),
        "scaler": state.scaler.state_dict(),
        "ema": None if state.ema is None else state.ema.model.state_dict(),
        "progress": asdict(log_state),
    }
    write_atomic(path, lambda file: torch.save(content, file))


def load_last(path: Path, state: State, progress: Progress = SILENT) -> LogState:
    """Load a saved state into `state`, and return the state of the log."""
    try:
        content = _read_last(path)
    except CheckpointError as error:
        raise CheckpointError(f"{error}{offer_best(path.parent)}") from error
    try:
        state.model.load_state_dict(content["model"])
        state.optimizer.load_state_dict(content["optimizer"])
        state.scaler.load_state_dict(content["scaler"])
        if state.ema is not None:
            state.ema.model.load_state_dict(content["ema"])
        step = content["step"]
        if type(step) is not int or step < 0:
            raise ValueError(f"its step is {step!r}")
        state.step = step
        log_state = LogState(**content["progress"])
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        reason = first_line(error)
        raise CheckpointError(f"{path} does not fit this recipe's network: {reason}") from error
    if log_state.best_score >= 0:
        try:
            best = path.with_name(BEST)
            check_sum(best)
            read_info(best)
        except (CheckpointError, OSError):
            progress.note(f"{BEST} is lost or damaged: the next validation writes it again")
            return replace(log_state, best_score=-1.0)
    return log_state


def save_best(path: Path, trained: TrainedNetwork, *, newest: bool) -> bool:
    """Save a network, unless the file holds a better one, or with `newest` that of a later step.

    Returns whether it was saved. A training that resumes from an older checkpoint may not find that
    one again.
    """
    with suppress(CheckpointError, OSError):
        kept, new = read_info(path), trained.info
        check_sum(path)
        if kept.step > new.step if newest else kept.score["miou"] > new.score["miou"]:
            return False
    save_trained(path, trained)
    return True


def saved_step(path: Path) -> int | None:
    """Return the step of a checkpoint, or None if it cannot be read."""
    with suppress(CheckpointError):
        step = _read_last(path).get("step")
        return step if type(step) is int else None
    return None


def offer_best(directory: Path) -> str:
    """Say how to go on from a run that cannot be resumed: from its best network, if it has one."""
    words, how = [str(directory / RECIPE)], "begin again"
    with suppress(CheckpointError):
        info = read_info(directory / BEST)
        score = f", mIoU {100 * info.score['miou']:.2f} %" if "miou" in info.score else ""
        words += ["--set", f"train.init_from={directory}"]
        how = f"go on from its best network (step {info.step:,}{score})"
    command = shlex.join(["reconet", "train", *words, "--out", f"{directory}-again"])
    return f" To {how}: {command}"


def run_weights(source: Path) -> dict[str, Tensor]:
    """Read the best weights of a run directory, or its last ones, or the weights of a file."""
    path = source
    if source.is_dir():
        path = source / BEST if (source / BEST).is_file() else source / LAST
    if not path.is_file():
        raise CheckpointError(f"no weights at {source}; name a run directory or a file.")
    if path.suffix == ".pt":
        content = _read_last(path)
        weights: dict[str, Tensor] = content["ema"] or content["model"]
        return weights
    return read_weights(path)


def _read_last(path: Path) -> dict[str, Any]:
    try:
        check_file(path, limit=WEIGHTS_BYTES, within=path.parent)
        with ZipFile(path) as archive:  # torch.save writes checksums, but torch.load ignores them
            for entry in archive.infolist():
                if entry.compress_type != 0:  # torch.save does not compress; it may be a zip bomb
                    raise ValueError("it is compressed")
                with archive.open(entry) as file:
                    while file.read(CHUNK):
                        pass
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}.") from error
    except Exception as error:  # torch raises many kinds for a damaged file
        raise CheckpointError(
            f"cannot read {path}: it is damaged, or no file of tensors ({type(error).__name__})."
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(f"{path} is no checkpoint of format {FORMAT}.")
    return content
