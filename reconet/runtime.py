"""A trained network, opened for use: what to call, and all that one must know of its answers.

To add a file format: write a function that opens it, add one line to OPENERS.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from reconet.data.dataset import Colour
from reconet.errors import pick
from reconet.inference import Forward
from reconet.models.fold import fold_batchnorm
from reconet.models.segmenter import Segmenter
from reconet.models.trained import load_trained
from reconet.recipe import Recipe
from reconet.runtimes import RUNTIMES, open_file


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network for use only. `forward` may be called by several threads at once."""

    forward: Forward
    how: str  # what runs it, for people: "torch fp32"
    recipe: Recipe
    classes: tuple[str, ...]
    palette: tuple[Colour, ...]
    step: int
    score: dict[str, float]
    model: Segmenter | None = None  # to look into; none in an exported file


Opener = Callable[[Path, torch.device], Network]


def open_network(source: Path, device: torch.device) -> Network:
    """The network of a run directory, or of one file that was saved or exported."""
    suffix = "" if source.is_dir() else source.suffix  # a directory may have a dot in its name
    return pick(OPENERS, suffix or ".safetensors", "format of a network")(source, device)


def open_weights(source: Path, device: torch.device) -> Network:
    trained = load_trained(source)
    return Network(
        forward=in_use(trained.model, device),
        how="torch fp32",
        recipe=trained.recipe,
        classes=trained.classes,
        palette=trained.palette,
        step=trained.step,
        score=trained.score,
        model=trained.model.to(device),
    )


def in_use(model: Segmenter, device: torch.device) -> Forward:
    """The network as fast as it goes without another result: folded, and laid out as its
    convolutions like it."""
    folded = fold_batchnorm(model).to(device)
    folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @torch.inference_mode()
    def forward(image_bchw: Tensor) -> Tensor:
        return folded.coarse(image_bchw.contiguous(memory_format=torch.channels_last))

    return forward


def open_export(source: Path, device: torch.device) -> Network:
    """A file of `reconet export`, run on the CPU by the library that it was made for."""
    opened = open_file(source)
    about = opened.about
    return Network(
        forward=lambda image_bchw: opened(image_bchw)[0],
        how=opened.how,
        recipe=about.recipe,
        classes=about.classes,
        palette=about.palette,
        step=about.step,
        score=about.score,
    )


OPENERS: dict[str, Opener] = {
    ".safetensors": open_weights,
    **dict.fromkeys(RUNTIMES, open_export),
}
