"""Networks side by side: size on disk, parameters, products, and time as a ratio."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from reconet.cost.counter import model_cost
from reconet.inference.network import in_use
from reconet.models.decompose import look_inside, reconstruction
from reconet.models.trained import TrainedNetwork
from reconet.system.timing import ratios, time_in_turns


class Ratio(NamedTuple):
    """A time over another, of several rounds."""

    median: float
    range: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A network before or after; times are ratios to the network before, taken in turns."""

    name: str
    rank: int
    figures: dict[str, float]
    params: int  # in use: without the auxiliary head
    core_params: int
    file_bytes: int
    macs: int  # of one training crop
    core_macs: int
    time: float
    time_range: tuple[float, float]  # over the rounds
    core_time: float
    core_time_range: tuple[float, float]


def measure(
    networks: Mapping[str, TrainedNetwork], paths: Sequence[Path], device: torch.device
) -> Iterable[Measured]:
    """Networks by name, the first of which is the one that times are compared with."""
    first = next(iter(networks.values()))
    crop = first.info.recipe.data.crop
    image_bchw = torch.zeros(1, 3, *crop, dtype=torch.uint8, device=device)
    x_bchw = look_inside(first.model, image_bchw).x_bchw
    forwards = {n: _call(in_use(one.model, device), image_bchw) for n, one in networks.items()}
    cores = {
        name: _call(torch.no_grad()(reconstruction(one.model)), x_bchw)
        for name, one in networks.items()
    }
    times, core_times = in_turns(forwards, 7), in_turns(cores, 15)
    for (name, one), path in zip(networks.items(), paths, strict=True):
        cost = model_cost(one.model, crop)
        core = next(part for part in cost.parts if part.name == "core")
        yield Measured(
            name=name,
            rank=reconstruction(one.model).rank_logits_r.numel(),
            figures=one.info.score,
            params=cost.total.params,
            core_params=core.params,
            file_bytes=path.stat().st_size,
            macs=cost.total.macs,
            core_macs=core.macs,
            time=times[name].median,
            time_range=times[name].range,
            core_time=core_times[name].median,
            core_time_range=core_times[name].range,
        )


def _call(function: Callable[[Tensor], Tensor], value: Tensor) -> Callable[[], object]:
    return lambda: function(value)


def in_turns(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Ratio]:
    """Each call's time over that of the first, in rounds, so that noise meets all."""
    times = time_in_turns(calls, repeats)
    first = next(iter(times.values()))
    by_name = {name: ratios(seconds, first) for name, seconds in times.items()}
    return {
        name: Ratio(median(values), (min(values), max(values))) for name, values in by_name.items()
    }
