"""Prune a run: find the ranks that matter, keep them, score, measure and save.

The importance of a rank is the change of the logits without it. On some images (the calibration)
each rank is switched off in turn. The change of the logits, less its mean over classes (which no
probability depends on), is squared and averaged. Only the layers after the fusing convolution are
computed again (models/decompose.py).

The kept ranks keep their lambda. How a core is cut to some of its ranks stands beside its weights
(`state_of_ranks` in models/context).

Dimensions: r rank.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from reconet.cost import model_cost
from reconet.data import Dataset, evenly_spaced, open_split
from reconet.data.dataset import title_of
from reconet.errors import DataError, OutputError, RecipeError
from reconet.evaluation import check_classes, count_confusion
from reconet.evaluation.metrics import named_scores
from reconet.inference import FoundNetwork, Protocol, find_network, make_forward, whole_image
from reconet.models.decompose import decompose, low_rank_core
from reconet.models.segmenter import Segmenter, build_model
from reconet.models.trained import (
    TrainedNetwork,
    find_weights,
    load_trained,
    put_weights,
    save_trained,
)
from reconet.recipes import read_recipe, write_recipe
from reconet.system.distributed import Processes, pick_device
from reconet.system.files import check_output_folder
from reconet.system.progress import SILENT, Progress
from reconet.system.readable import counted
from reconet.system.run_files import BEST, LAST, LOG, RECIPE
from reconet.system.timing import ratios, time_in_turns

CORE = "context.core."


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


@dataclass(frozen=True, kw_only=True)
class PruneResult:
    """The pruned networks beside the one before, and how their ranks were chosen."""

    dataset: str
    calibrated_on: str
    images: int
    protocol: str
    importance: tuple[float, ...]
    kept: dict[int, tuple[int, ...]]  # new rank -> numbers of the old ranks
    directories: tuple[str, ...]
    networks: tuple[NetworkMeasurement, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def prune_run(
    source: str | Path,
    ranks: Sequence[int],
    *,
    split: str | None = None,
    images: int = 64,
    out: Path | None = None,
    root: Path | None = None,
    device: str = "auto",
    progress: Progress = SILENT,
) -> PruneResult:
    """Prune a network to each of `ranks`, and write a run directory for each.

    `source` is its path or name.
    """
    found = find_network(source, progress=progress)
    before = load_trained(found.path)
    processes = Processes.single(pick_device(device))
    before.model.to(processes.device)
    directories = _output_directories(found, before, ranks, out)
    data = before.info.recipe.data

    def opened(split: str) -> Dataset:
        dataset = open_split(data, split, root)
        check_classes(before.info.classes, dataset, str(found))
        if len(dataset) == 0:
            raise DataError(f"{data.name} has no images in split {split!r}.")
        return dataset

    scored, calibration = opened(data.val_split), opened(split or data.train_split)
    chosen = evenly_spaced(len(calibration), images)
    progress.start(len(chosen), "calibrate")

    def seen() -> Iterator[Tensor]:
        for index in chosen:
            yield whole_image(calibration[index].image_hwc, data.base_size).to(processes.device)
            progress.advance()

    importance_r = rank_importance(before.model, seen())
    kept = {rank: best_ranks(importance_r, rank) for rank in ranks}
    networks = {"before": before} | {f"rank {r}": keep_ranks(before, kept[r]) for r in ranks}
    protocol = Protocol.of(before.info.recipe.eval, data)
    for name, network in networks.items():
        progress.start(len(scored), f"score {name}")
        count_kk = count_confusion(
            make_forward(network.model, processes.device),
            len(network.info.classes),
            scored,
            processes,
            protocol=protocol,
            workers=data.workers,
            progress=progress,
        ).count_kk
        score = named_scores(count_kk, data.name, network.info.classes)
        networks[name] = replace(network, info=replace(network.info, score=score))
    paths = [find_weights(found.path)]
    pruned = list(networks.values())[1:]
    paths += [_save(one, directory) for one, directory in zip(pruned, directories, strict=True)]
    return PruneResult(
        dataset=f"{title_of(scored)}, {counted(len(scored), 'image')}",
        calibrated_on=f"{title_of(calibration)}",
        images=len(chosen),
        protocol=str(protocol),
        importance=tuple(importance_r.tolist()),
        kept=kept,
        directories=tuple(map(str, directories)),
        networks=tuple(_measure(networks, paths, processes.device)),
    )


def rank_importance(model: Segmenter, images: Iterable[Tensor]) -> Tensor:
    """Return importance_r: the root mean square change of the logits without each rank."""
    total_r, count = torch.zeros(low_rank_core(model).rank).double(), 0
    for image_bchw in images:
        logits = decompose(model, image_bchw).leave_one_out()
        whole_bkij = next(logits)
        for rank, without_bkij in enumerate(logits):
            change_bkij = without_bkij - whole_bkij
            change_bkij -= change_bkij.mean(1, keepdim=True)
            total_r[rank] += change_bkij.cpu().double().square().mean()
        count += 1
    return (total_r / max(1, count)).sqrt()


def best_ranks(importance_r: Tensor, count: int) -> tuple[int, ...]:
    """Return the most important ranks, in the order that they have in the network."""
    best = importance_r.argsort(descending=True, stable=True)[:count]
    return tuple(sorted(best.tolist()))


def keep_ranks(trained: TrainedNetwork, kept: Sequence[int]) -> TrainedNetwork:
    """Return the same network with only some of its ranks, each with its old lambda."""
    model, core = trained.model, low_rank_core(trained.model)
    rest = {k: v for k, v in model.state_dict().items() if not k.startswith(CORE)}
    state = rest | {CORE + name: value for name, value in core.state_of_ranks(kept).items()}
    recipe, before = trained.info.recipe, trained.info.recipe.model
    options = {key: value for key, value in before.options.items() if key != "rank"}
    changed = {"rank": len(kept), "options": options | dict(core.pruned_options)}
    recipe = recipe.model_copy(update={"model": before.model_copy(update=changed)})
    result = build_model(recipe, len(trained.info.classes), pretrained=False)
    put_weights(result, state, Path("the network before"))
    device = model.classify.weight.device
    info = replace(trained.info, recipe=recipe, temperature=1.0)  # which was of other weights
    return TrainedNetwork(model=result.eval().to(device), info=info)


def _output_directories(
    found: FoundNetwork, before: TrainedNetwork, ranks: Sequence[int], out: Path | None
) -> list[Path]:
    """Choose where the results go. Raise before anything is computed if one cannot be written.

    A directory that an earlier pruning wrote is written again.
    """
    rank = low_rank_core(before.model).rank
    for wanted in ranks:
        if not 1 <= wanted < rank:
            raise RecipeError(f"--rank must be at least 1 and below {rank}, the rank of {found}.")
    path = found.path
    home = (path if path.is_dir() else path.parent).resolve()
    if found.name:  # nothing is written beside it
        home = Path.cwd() / found.short_name
    if out is None:
        directories = [home.with_name(f"{home.name}-rank{wanted}") for wanted in ranks]
    else:
        directories = [out] if len(ranks) == 1 else [out / f"rank{wanted}" for wanted in ranks]
    for directory in directories:
        check_output_folder(directory)
    taken = [
        str(directory)
        for directory in directories
        if directory.exists() and any(directory.iterdir()) and not _written_by_prune(directory)
    ]
    if taken:
        verb = "exists and is" if len(taken) == 1 else "exist and are"
        other = "Leave out that --rank, or name" if len(taken) < len(directories) else "Name"
        raise OutputError(
            f"{' and '.join(taken)} {verb} not empty. {other} another --out. Nothing was pruned."
        )
    return directories


def _written_by_prune(directory: Path) -> bool:
    """Return whether `_save` wrote the directory, and no training has run in it since."""
    if any((directory / name).exists() for name in (LAST, LOG)):
        return False
    try:
        start = read_recipe(directory / RECIPE).train.init_from
    except RecipeError:
        return False
    return start == (directory / BEST).resolve()


def _save(trained: TrainedNetwork, directory: Path) -> Path:
    """Write a run directory whose recipe starts from its own weights: training it fine-tunes."""
    path = directory / BEST
    train = trained.info.recipe.train.model_copy(update={"init_from": path.resolve()})
    # The recipe comes first. It lets the next pruning write a half-written directory again.
    write_recipe(trained.info.recipe.model_copy(update={"train": train}), directory / RECIPE)
    save_trained(path, trained)
    return path


def _measure(
    networks: Mapping[str, TrainedNetwork], paths: Sequence[Path], device: torch.device
) -> Iterator[NetworkMeasurement]:
    """Measure networks by name. Times are compared with those of the first one."""
    first = next(iter(networks.values()))
    crop = first.info.recipe.data.crop
    image_bchw = torch.zeros(1, 3, *crop, dtype=torch.uint8, device=device)
    x_bchw = decompose(first.model, image_bchw).x_bchw
    forwards, cores = {}, {}
    for name, one in networks.items():
        forwards[name] = partial(make_forward(one.model, device), image_bchw)
        cores[name] = partial(torch.no_grad()(low_rank_core(one.model)), x_bchw)
    times, core_times = time_in_turns(forwards, 7), time_in_turns(cores, 15)
    for (name, one), path in zip(networks.items(), paths, strict=True):
        cost = model_cost(one.model, crop)
        core = next(part for part in cost.parts if part.name == "core")
        time = ratios(times[name], times["before"])
        core_time = ratios(core_times[name], core_times["before"])
        yield NetworkMeasurement(
            name=name,
            rank=low_rank_core(one.model).rank,
            figures=one.info.score,
            params=cost.total.params,
            core_params=core.params,
            file_bytes=path.stat().st_size,
            macs=cost.total.macs,
            core_macs=core.macs,
            time=median(time),
            time_range=(min(time), max(time)),
            core_time=median(core_time),
            core_time_range=(min(core_time), max(core_time)),
        )
