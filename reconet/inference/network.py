"""Open a trained network for use: a function to call, and all that one must know of its output."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from reconet.errors import RecipeError, unknown
from reconet.inference.backends import BACKENDS, open_exported
from reconet.inference.windows import Forward
from reconet.models.fold import fold_batchnorm, use_winograd
from reconet.models.segmenter import Segmenter
from reconet.models.trained import NetworkInfo, TrainedNetwork, load_trained
from reconet.system.hardware import bf16_works, make_bf16_safe

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}
AUTO = "auto"
PROBE_SIDE = 128  # of the generated image: a fraction of a second, even for a ResNet-101
PROBE_ROUNDS = 5  # bf16 must be faster in all of them, since other programs disturb single rounds
FASTER = 1.2  # bf16 must be this many times as fast, or it is not worth the rounding
SAME_LABELS = 0.99  # bf16 must give the same class at this fraction of the places


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network that can be used but not trained. Several threads may call `forward` at once."""

    forward: Forward
    how: str  # what runs it, for people: "torch fp32"
    info: NetworkInfo
    model: Segmenter | None = None  # to look into; an exported file has none


def open_network(source: Path, device: torch.device, precision: str | None = None) -> Network:
    """Open the network of a run directory, or of a file that was saved or exported.

    `precision` is one of
        None      as saved: an export at its own precision, anything else in fp32, so that two
                  machines give the same labels
        "auto"    bf16 if this CPU has it, computes it faster, and gives nearly the same labels on
                  a generated image; else as saved
        "fp32", "bf16"
    """
    if precision is not None and precision not in (AUTO, *PRECISIONS):
        raise unknown("precision", precision, (AUTO, *PRECISIONS))
    if is_export(source):
        if precision in PRECISIONS:
            raise RecipeError(
                f"{source} is exported and keeps its precision; use the precision auto."
            )
        return open_export(source)
    on_cpu = device.type == "cpu"
    if precision == "bf16" and on_cpu and not make_bf16_safe():
        raise RecipeError("this CPU cannot compute in bf16; use the precision fp32 or auto.")
    may_round = precision == AUTO and on_cpu
    with ThreadPoolExecutor(1) as background:  # another process tries bf16 while we read the file
        if may_round:
            background.submit(bf16_works)  # its result is cached
        trained = load_trained(source)
    if precision == "bf16":
        return make_network(trained, device, "bf16")
    network = make_network(trained, device)
    if may_round and bf16_works():
        return choose_faster(network, make_network(trained, device, "bf16"))
    return network


def is_export(source: Path) -> bool:
    """Tell whether a path is that of an exported file."""
    return source.suffix in BACKENDS and not source.is_dir()  # a directory may have a dot


def open_export(source: Path, *, trusted: bool = False) -> Network:
    """Open a file of `reconet export`. Its library runs it on the CPU."""
    exported = open_exported(source, trusted=trusted)
    return Network(forward=exported.logits, how=exported.how, info=exported.info.network)


def make_network(trained: TrainedNetwork, device: torch.device, precision: str = "fp32") -> Network:
    """Make a trained network ready for use."""
    model = trained.model.to(device)
    has_norms = any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    return Network(
        forward=make_forward(model, device, PRECISIONS[precision]),
        how=f"torch {precision}{', batch norm folded' if has_norms else ''}, channels last",
        info=trained.info,
        model=model,
    )


def make_forward(
    model: Segmenter, device: torch.device, dtype: torch.dtype = torch.float32
) -> Forward:
    """Return the forward pass of a model: image_bchw -> logits_bkij.

    Batch norm is folded, memory is laid out as convolutions like it, and wide 3 x 3 convolutions
    of a CPU take Winograd's way. All only make it faster. In bf16 weights and feature maps are
    rounded.
    """
    folded = fold_batchnorm(model).to(device, dtype)
    folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if device.type == "cpu" and dtype == torch.float32:
        use_winograd(folded)

    @torch.inference_mode()
    def forward(image_bchw: Tensor) -> Tensor:
        return folded.coarse(image_bchw.contiguous(memory_format=torch.channels_last)).float()

    return forward


def choose_faster(exact: Network, rounded: Network) -> Network:
    """Return `rounded` if it is clearly faster and gives nearly the same labels, else `exact`."""
    from reconet.data import open_dataset  # no prediction needs it otherwise

    scene = open_dataset("scenes", "val", None, {"size": [PROBE_SIDE] * 2, "train": 1, "val": 1})
    image_bchw = torch.from_numpy(scene[0].image_hwc).permute(2, 0, 1)[None]
    same_bij = exact.forward(image_bchw).argmax(1) == rounded.forward(image_bchw).argmax(1)
    if same_bij.float().mean() < SAME_LABELS:
        return exact
    speedups = [
        _seconds(exact.forward, image_bchw) / _seconds(rounded.forward, image_bchw)
        for _ in range(PROBE_ROUNDS)
    ]
    return rounded if min(speedups) >= FASTER else exact


def _seconds(forward: Forward, image_bchw: Tensor) -> float:
    start = time.perf_counter()
    forward(image_bchw)
    return time.perf_counter() - start


def precision_of(network: Network) -> str:
    """Return the precision that opens the same network again, as `open_network` takes it."""
    if network.model is None:
        return AUTO
    return next(name for name in PRECISIONS if network.how.startswith(f"torch {name}"))
