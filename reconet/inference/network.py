"""A trained network, opened for use: what to call, and all that one must know of its answers.

To add a file format: write a function that opens it, add one line to OPENERS.

`open_network` opens a network as it was trained, in fp32: two machines give the same scores.
`open_fast` looks for a faster way with, nearly, the same labels: bf16 where the CPU has it, is
faster in it, and the labels of a generated image agree.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from reconet.data import open_dataset
from reconet.errors import CheckpointError, RecipeError, pick, unknown
from reconet.inference.backends import RUNTIMES, open_file
from reconet.inference.windows import Forward
from reconet.models.fold import fold_batchnorm
from reconet.models.network_info import NetworkInfo
from reconet.models.segmenter import Segmenter
from reconet.models.trained import TrainedNetwork, load_trained, refuse_other_files
from reconet.system.hardware import bf16_works, make_bf16_safe

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
AUTO = "auto"
PROBE_SIDE = 128  # of the generated image: a fraction of a second, even of a ResNet-101
PROBE_ROUNDS = 5  # all of which must agree: one alone is at the mercy of other programs
FASTER = 1.2  # bf16 must be so many times as fast, or it is not worth another rounding
SAME_LABELS = 0.99  # ... and must say the same class at this part of the places


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network for use only. `forward` may be called by several threads at once."""

    forward: Forward
    how: str  # what runs it, for people: "torch fp32"
    info: NetworkInfo
    model: Segmenter | None = None  # to look into; none in an exported file


Opener = Callable[[Path, torch.device], Network]


def open_network(source: Path, device: torch.device) -> Network:
    """The network of a run directory, or of one file that was saved or exported."""
    suffix = "" if source.is_dir() else source.suffix  # a directory may have a dot in its name
    if suffix not in RUNTIMES:
        refuse_other_files(source)
    return pick(OPENERS, suffix or ".safetensors", "format of a network")(source, device)


def open_fast(source: Path, device: torch.device, precision: str = AUTO) -> Network:
    """The same at a precision: fp32, bf16, or "auto", the fastest that is safe here.

    An exported network has the precision that it was exported with.
    """
    if precision not in (AUTO, *PRECISIONS):
        raise unknown("precision", precision, (AUTO, *PRECISIONS))
    on_cpu = device.type == "cpu"
    if precision == "bf16" and on_cpu and not make_bf16_safe():
        raise RecipeError("this CPU cannot compute in bf16; use --precision fp32 or auto.")
    with ThreadPoolExecutor(1) as aside:  # another process has to answer; meanwhile we read
        if precision == AUTO and on_cpu:
            aside.submit(bf16_works)  # which remembers its answer
        network = open_network(source, device)
    if network.model is None:
        if precision != AUTO:
            raise RecipeError(f"{source} is exported, at a precision of its own; leave it at auto.")
        return network
    if precision == "bf16":
        return in_bf16(network, network.model, device)
    return fastest(network, device) if precision == AUTO else network


def fastest(network: Network, device: torch.device) -> Network:
    """The network in fp32, or in bf16 where that is safe and worth it."""
    if network.model is None or device.type != "cpu" or not bf16_works():
        return network
    return faster_of(network, in_bf16(network, network.model, device))


def precision_of(network: Network) -> str:
    """What open_fast has decided, as it would be told to it."""
    if network.model is None:
        return AUTO
    return next(name for name in PRECISIONS if network.how.startswith(f"torch {name}"))


def open_weights(source: Path, device: torch.device) -> Network:
    return network_of(load_trained(source), device)


def network_of(trained: TrainedNetwork, device: torch.device) -> Network:
    model = trained.model.to(device)
    return Network(
        forward=in_use(model, device), how=_how(model, "fp32"), info=trained.info, model=model
    )


def in_bf16(network: Network, model: Segmenter, device: torch.device) -> Network:
    forward = in_use(model, device, torch.bfloat16)
    return replace(network, forward=forward, how=_how(model, "bf16"))


def in_use(model: Segmenter, device: torch.device, dtype: torch.dtype = torch.float32) -> Forward:
    """The network as fast as it goes without another result: folded, and laid out as its
    convolutions like it. In bf16 weights and maps are rounded."""
    folded = fold_batchnorm(model).to(device, dtype)
    folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @torch.inference_mode()
    def forward(image_bchw: Tensor) -> Tensor:
        return folded.coarse(image_bchw.contiguous(memory_format=torch.channels_last)).float()

    return forward


def faster_of(exact: Network, rough: Network) -> Network:
    """The rough one only if it is clearly faster and says the same, on an image of scenes."""
    image_bchw = _probe()
    same_bij = exact.forward(image_bchw).argmax(1) == rough.forward(image_bchw).argmax(1)
    if same_bij.float().mean() < SAME_LABELS:
        return exact
    ratios = [
        _seconds(exact.forward, image_bchw) / _seconds(rough.forward, image_bchw)
        for _ in range(PROBE_ROUNDS)
    ]
    return rough if min(ratios) >= FASTER else exact


def _probe() -> Tensor:
    dataset = open_dataset("scenes", "val", None, {"size": [PROBE_SIDE] * 2, "train": 1, "val": 1})
    return torch.from_numpy(dataset[0].image_hwc).permute(2, 0, 1)[None]


def _seconds(forward: Forward, image_bchw: Tensor) -> float:
    start = time.perf_counter()
    forward(image_bchw)
    return time.perf_counter() - start


def _how(model: Segmenter, precision: str) -> str:
    has_norms = any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    folded = ", batch norm folded" if has_norms else ""
    return f"torch {precision}{folded}, channels last"


def open_export(source: Path, device: torch.device) -> Network:
    """A file of `reconet export`, run on the CPU by the library that it was made for."""
    opened = open_file(source)
    network = opened.info.network

    def forward(image_bchw: Tensor) -> Tensor:
        (logits_bkij,) = opened(image_bchw)
        if logits_bkij.ndim != 4 or logits_bkij.shape[1] != len(network.classes):
            raise CheckpointError(
                f"{source} does not tell its {len(network.classes)} classes apart."
            )
        return logits_bkij

    return Network(forward=forward, how=opened.how, info=network)


OPENERS: dict[str, Opener] = {
    ".safetensors": open_weights,
    **dict.fromkeys(RUNTIMES, open_export),
}
