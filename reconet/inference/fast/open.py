"""Open a network as it was chosen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from reconet.errors import CheckpointError, ReconetError
from reconet.inference.backends import open_exported
from reconet.inference.fast.choice import FoundChoice, Way
from reconet.inference.fast.find import find_fast
from reconet.inference.network import Network, make_exported_network, open_network
from reconet.inference.windows import Forward
from reconet.models.trained import find_weights, read_info
from reconet.recipes.schema import Data
from reconet.system.progress import NOTES, Progress


def open_fast(
    source: Path,
    device: torch.device,
    *,
    images: Sequence[Path] = (),
    data: Data | None = None,
    progress: Progress = NOTES,
) -> Network:
    """Open a network the fastest way that keeps its labels, and note which it is.

    The first call for a network measures, which takes minutes. `images` are files to compare and
    calibrate by if the dataset of the network is not on this machine. `data` says where it is, if
    not where the recipe says.
    """
    found = find_fast(source, device, images, progress, data=data)
    return open_choice(found, source, device, progress)


def open_choice(
    found: FoundChoice, source: Path, device: torch.device, progress: Progress = NOTES
) -> Network:
    """Open a network as it was chosen, and note it. What cannot be opened runs in eager fp32."""
    try:
        network = OPEN_WAY[found.choice.way](found, source, device)
        progress.note(str(found))
    except ReconetError as error:
        network = open_network(source, device)
        progress.note(f"fast: eager fp32, since the kept file fails: {error}")
    return network


def _open_eager(found: FoundChoice, source: Path, device: torch.device) -> Network:
    return open_network(source, device)


def _open_bf16(found: FoundChoice, source: Path, device: torch.device) -> Network:
    return open_network(source, device, "bf16")


def _open_exported(found: FoundChoice, source: Path, device: torch.device) -> Network:
    network = make_exported_network(open_exported(found.path))
    return _with_small_images(network, found.choice.smallest, source, device)


def _open_compiled(found: FoundChoice, source: Path, device: torch.device) -> Network:
    compiled = Network(
        forward=load_compiled(found.path),
        how="torch.compile fp32",
        info=read_info(find_weights(source)),
    )
    return _with_small_images(compiled, found.choice.smallest, source, device)


def load_compiled(path: Path) -> Forward:
    """Load a package of AOTInductor: as fast as torch.compile, and ready at once."""
    try:
        compiled = torch._inductor.aoti_load_package(str(path))
    except (RuntimeError, OSError) as error:
        raise CheckpointError(f"cannot open {path}.") from error

    @torch.inference_mode()
    def forward(image_bchw: Tensor) -> Tensor:
        logits_bkij: Tensor = compiled(image_bchw.contiguous())[1]
        return logits_bkij

    return forward


def _with_small_images(
    network: Network, smallest: int, source: Path, device: torch.device
) -> Network:
    """Let the network itself take images that are too small for its export."""

    @cache
    def eager() -> Network:
        return open_network(source, device)

    def forward(image_bchw: Tensor) -> Tensor:
        is_small = min(image_bchw.shape[2:]) < smallest
        return (eager() if is_small else network).forward(image_bchw)

    return replace(network, forward=forward)


OPEN_WAY: dict[Way, Callable[[FoundChoice, Path, torch.device], Network]] = {
    "eager": _open_eager,
    "bf16": _open_bf16,
    "exported": _open_exported,
    "compiled": _open_compiled,
}
