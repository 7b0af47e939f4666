"""Measure the cores of all contexts side by side on one feature map.

The ratios within one run count, not the times of one machine.
"""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from reconet.cost import PeakMemory, module_cost
from reconet.errors import RecipeError, pick
from reconet.models.context import CONTEXTS
from reconet.models.context.reconet import TensorReconstruction
from reconet.models.features import FeatureSpec, Stages
from reconet.system.files import write_atomic
from reconet.system.own_code import describe_error, find_own
from reconet.system.timing import time_in_turns

LOOP = "reconet, loop"


@dataclass(frozen=True, kw_only=True)
class ModuleBench:
    """One core on one feature map. Memory is in units of that map."""

    name: str
    reach: str
    params: int
    macs: int
    forward_ms: float
    forward_backward_ms: float
    forward_peak_maps: float  # most memory alive at once, without input and weights
    forward_backward_peak_maps: float  # the same in training, without the weights' gradients

    @property
    def spatial(self) -> bool:
        """Return whether a position of the result depends on other positions."""
        return self.reach != "channels only"


class LoopReconstruction(nn.Module):
    """TensorReconstruction in the form that the paper's authors published.

    It has one layer per rank and axis, and one outer product per rank. It computes the same, and
    is the slow reference of the benchmark.
    """

    def __init__(self, core: TensorReconstruction) -> None:
        super().__init__()
        self.channel = _split(core.channel.linear.weight, core.channel.length)
        self.row = _split(core.row.linear.weight, core.row.length)
        self.column = _split(core.column.linear.weight, core.column.length)
        self.rank_logits_r = nn.Parameter(core.rank_logits_r.detach().clone())

    def forward(self, x_bchw: Tensor) -> Tensor:
        channel_bc11 = x_bchw.mean(dim=(2, 3))[:, :, None, None]
        row_bh11 = x_bchw.mean(dim=(1, 3))[:, :, None, None]
        column_bw11 = x_bchw.mean(dim=(1, 2))[:, :, None, None]
        weight_r = self.rank_logits_r.softmax(dim=0)
        attention_bchw = torch.zeros_like(x_bchw)
        for index, (channel, row, column) in enumerate(
            zip(self.channel, self.row, self.column, strict=True)
        ):
            c_bc1 = channel(channel_bc11).sigmoid().flatten(1)[:, :, None]
            h_b1h = row(row_bh11).sigmoid().flatten(1)[:, None, :]
            w_b1w = column(column_bw11).sigmoid().flatten(1)[:, None, :]
            plane_bn1 = (c_bc1 @ h_b1h).flatten(1)[:, :, None]
            one_bchw = (plane_bn1 @ w_b1w).view_as(x_bchw)
            attention_bchw = attention_bchw + weight_r[index] * one_bchw
        return x_bchw * attention_bchw


def _split(weight: Tensor, length: int) -> nn.ModuleList:
    """Split the r square matrices stacked in `weight` into r 1x1 convolutions."""
    layers = nn.ModuleList()
    for weight_nn in weight.detach().split(length):
        layer = nn.Conv2d(length, length, 1, bias=False)
        layer.weight = nn.Parameter(weight_nn[:, :, None, None].clone())
        layers.append(layer)
    return layers


def bench_module(
    *,
    channels: int = 512,
    size: tuple[int, int] = (64, 64),
    rank: int = 64,
    repeats: int = 15,
    only: Collection[str] | None = None,
    against: Sequence[str] = (),
) -> list[ModuleBench]:
    """Measure cores in turns on one map of one image.

    RecoNet's core comes first and its loop form second. The others follow, or `only` those. Then
    come modules of the user, FILE.py:CLASS.
    """
    torch.manual_seed(0)
    cores = make_cores(channels, size, rank, only)
    x_bchw = torch.randn(1, channels, *size)
    cores |= {place: _own_module(place, x_bchw) for place in against}
    forward = _median_ms(cores, partial(_forward, x_bchw=x_bchw), repeats)
    both = _median_ms(cores, partial(_forward_backward, x_bchw=x_bchw), repeats)
    results = []
    for name, module in cores.items():
        is_own = name in against
        with PeakMemory() as peak:
            _forward(module, x_bchw)
        with PeakMemory() as training_peak:
            _forward_backward(module, x_bchw)
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        # Ours are counted without memory. Others may make tensors of their own on the CPU.
        device = "cpu" if is_own else "meta"
        cost = module_cost(copy.deepcopy(module).eval().to(device), x_bchw.to(device))
        results.append(
            ModuleBench(
                name=name,
                reach="yours" if is_own else CONTEXTS[name.removesuffix(", loop")].info.reach,
                params=cost.params,
                macs=cost.macs,
                forward_ms=forward[name],
                forward_backward_ms=both[name],
                forward_peak_maps=peak.peak_bytes() / x_bchw.nbytes,
                forward_backward_peak_maps=training_peak.peak_bytes(gradients) / x_bchw.nbytes,
            )
        )
    return results


def make_cores(
    channels: int, size: tuple[int, int], rank: int, only: Collection[str] | None = None
) -> dict[str, nn.Module]:
    """Build the core of every context that has one, as its head would build it."""
    # Heads reduce the channels of c4 to a quarter.
    widths = max(1, channels // 2), channels, 2 * channels, 4 * channels
    specs = [FeatureSpec(channels=c, height=size[0], width=size[1]) for c in widths]
    core = TensorReconstruction(specs[1], rank=rank)
    cores: dict[str, nn.Module] = {"reconet": core, LOOP: LoopReconstruction(core)}
    for name in only if only is not None else CONTEXTS:
        other = pick(CONTEXTS, name, "context")(Stages(*specs), num_classes=21).core
        if other is not None:
            cores.setdefault(name, other)
        elif only is not None:
            raise RecipeError(f"{name} has no core: it works on the backbone's map as a whole.")
    return cores


def _own_module(place: str, x_bchw: Tensor) -> nn.Module:
    """Build a module of the user for the channels of a map, and try it once."""
    make = find_own(place, "--against")
    try:
        module = make(x_bchw.shape[1])
        if not isinstance(module, nn.Module):
            raise RecipeError(f"--against {place}: made no nn.Module, but {type(module).__name__}.")
        _forward_backward(module, x_bchw)
    except RecipeError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise RecipeError(
            f"--against {place}: it is called with the number of channels, and its module with one "
            f"map of (1, {', '.join(map(str, x_bchw.shape[1:]))}). {describe_error(error)}"
        ) from error
    return module


def _forward(module: nn.Module, x_bchw: Tensor) -> None:
    with torch.no_grad():
        module.eval()(x_bchw)


def _forward_backward(module: nn.Module, x_bchw: Tensor) -> None:
    module.train().zero_grad(set_to_none=True)
    _first(module(x_bchw.detach().requires_grad_())).sum().backward()  # no name keeps its result


def _first(result: Tensor | Sequence[Tensor]) -> Tensor:
    return result if isinstance(result, Tensor) else result[0]


def _median_ms(
    cores: Mapping[str, nn.Module], run: Callable[[nn.Module], None], repeats: int
) -> dict[str, float]:
    calls = {name: partial(run, module) for name, module in cores.items()}
    return {name: 1e3 * median(took) for name, took in time_in_turns(calls, repeats).items()}


def smaller_than_reconet(results: Sequence[ModuleBench]) -> list[str]:
    """Describe each core with spatial context that needs less time or memory than RecoNet's."""
    base = next(r for r in results if r.name == "reconet")
    figures = {
        "forward": "forward_ms",
        "forward + backward": "forward_backward_ms",
        "peak": "forward_peak_maps",
        "peak in training": "forward_backward_peak_maps",
    }
    lines = []
    for r in results:
        less = [label for label, key in figures.items() if getattr(r, key) < getattr(base, key)]
        if r.spatial and less:
            lines.append(
                f"{r.name} ({r.reach}; {r.macs / 1e9:.4f} G MACs, RecoNet {base.macs / 1e9:.4f} G) "
                f"needs less than RecoNet: {', '.join(less)}."
            )
    return lines


def plot_module(results: Sequence[ModuleBench], title: str, path: Path) -> None:
    """Draw time against memory on logarithmic axes, with the name of each core beside its point."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    ours, spatial, channels = "#c0392b", "#2c5d8f", "#9a9a9a"
    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.set(xscale="log", yscale="log", title=title)
    axes.set(xlabel="forward + backward, ms", ylabel="peak memory in training, maps")
    placed: list[tuple[float, float, float]] = []  # x, y and the shift of a name, in points
    for r in sorted(results, key=lambda r: r.forward_backward_peak_maps):
        x, y = r.forward_backward_ms, r.forward_backward_peak_maps
        is_ours, bold = r.name in {"reconet", LOOP}, r.name == "reconet"
        colour = ours if is_ours else spatial if r.spatial else channels
        axes.plot(x, y, "o", color=colour, markersize=9 if bold else 6)
        # Names of neighbours are stacked.
        taken = {o for px, py, o in placed if max(x / px, px / x) < 2.5 and y / py < 1.12}
        shift = next(11.0 * k for k in range(len(results) + 1) if 11.0 * k not in taken)
        placed.append((x, y, shift))
        axes.annotate(
            r.name,
            (x, y),
            xytext=(8, shift),
            textcoords="offset points",
            color=colour,
            fontsize=9,
            fontweight="bold" if bold else "normal",
            va="center",
        )
    for label, colour in (("sees positions", spatial), ("sees channels only", channels)):
        axes.plot([], [], "o", color=colour, label=label)
    axes.legend(loc="upper left")
    axes.set_xlim(right=3 * max(r.forward_backward_ms for r in results))  # room for the names
    axes.margins(y=0.1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(True, which="both", alpha=0.2)
    form = path.suffix.removeprefix(".") or "png"
    write_atomic(path, lambda file: figure.savefig(file, format=form))
