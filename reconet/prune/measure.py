"""Measure networks side by side: size on disk, parameters, products, and time as a ratio."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from reconet.cost import model_cost
from reconet.inference.network import make_forward
from reconet.models.decompose import decompose, low_rank_core
from reconet.models.trained import TrainedNetwork
from reconet.system.timing import ratios, time_in_turns


class TimeRatio(NamedTuple):
    """The ratio of two times over several rounds."""

    median: float
    range: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class NetworkMeasurement:
    """A network before or after pruning. Times are ratios to the network before."""

    name: str
    rank: int
    figures: dict[str, float]
    params: int  # of inference: without the auxiliary head
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
) -> Iterable[NetworkMeasurement]:
    """Measure networks by name. Times are compared with those of the first one."""
    first = next(iter(networks.values()))
    crop = first.info.recipe.data.crop
    image_bchw = torch.zeros(1, 3, *crop, dtype=torch.uint8, device=device)
    x_bchw = decompose(first.model, image_bchw).x_bchw
    forwards = {
        name: _call(make_forward(one.model, device), image_bchw) for name, one in networks.items()
    }
    cores = {
        name: _call(torch.no_grad()(low_rank_core(one.model)), x_bchw)
        for name, one in networks.items()
    }
    times, core_times = time_ratios(forwards, 7), time_ratios(cores, 15)
    for (name, one), path in zip(networks.items(), paths, strict=True):
        cost = model_cost(one.model, crop)
        core = next(part for part in cost.parts if part.name == "core")
        yield NetworkMeasurement(
            name=name,
            rank=low_rank_core(one.model).rank,
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


def time_ratios(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, TimeRatio]:
    """Time calls in turns, and divide the time of each by that of the first."""
    times = time_in_turns(calls, repeats)
    first = next(iter(times.values()))
    by_name = {name: ratios(seconds, first) for name, seconds in times.items()}
    return {
        name: TimeRatio(median(values), (min(values), max(values)))
        for name, values in by_name.items()
    }
